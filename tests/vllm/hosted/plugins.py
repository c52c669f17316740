"""Other plugins of vLLM, loaded beside ours: how they are installed, and what some of them do."""

from __future__ import annotations

import os
from pathlib import Path

#: Makes the text of any host another one.
OTHER_TEXT = """
def register():
    from ascend_infer.vllm_plugin import pins
    for releases in pins.pinned().values():
        for known in releases.values():
            known.update(dict.fromkeys(known, "0" * 12))
"""
#: Kernels of these names do not get through the compiler.
CANNOT_BE_BUILT = """
def register():
    from kernels_npu.sim import machine
    build = machine.compile_kernel

    def compile_kernel(func, **options):
        if func.name in {names}:
            raise RuntimeError("the compiler failed on " + func.name)
        return build(func, **options)

    machine.compile_kernel = compile_kernel
"""


def beside_ours(folder: Path, text: str, **modules: str) -> dict[str, str]:
    """Variables with which vLLM loads a plugin with this text before ours.

    modules: further ones that the plugin can import, by name.
    """
    for name, content in {"other_plugin": text, **modules}.items():
        (folder / f"{name}.py").write_text(content)
    return installed(folder, "other-plugin", "a_first_by_name = other_plugin:register")


def installed(folder: Path, distribution: str, entry_point: str) -> dict[str, str]:
    """Variables with which a package of this name, before all others, has this plugin of vLLM."""
    info = folder / f"{distribution.replace('-', '_')}-0.0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.0.1\n")
    (info / "entry_points.txt").write_text(f"[vllm.general_plugins]\n{entry_point}\n")
    path = [str(folder), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path))}
