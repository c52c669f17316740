"""From answers to verdicts: one module per subject, each check a function of the situation.

`CHECKS` is the list of all of them, in the order in which they are reported; the documentation's
table is made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ascend_infer.doctor.checks import (
    cann,
    directories,
    environment,
    host,
    machine,
    packages,
    pairs,
    torch_builds,
)
from ascend_infer.doctor.report import Finding, Situation


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check and its row in the documentation.

    name: of its findings; those of a check with several start with it. looks_at: the evidence.
    not_ok: when the verdict is a warning or broken.
    """

    name: str
    run: Callable[[Situation], Iterator[Finding]]
    looks_at: str
    not_ok: str


CHECKS = (
    Check(
        name="python",
        run=machine.python,
        looks_at="the interpreter's version",
        not_ok="broken: not 3.10 to 3.14",
    ),
    Check(name="cpu cores", run=machine.cores, looks_at="the process's affinity", not_ok="never"),
    Check(
        name="NPU devices",
        run=host.devices,
        looks_at="`/dev/davinci*` and the PCI bus",
        not_ok="broken: an NPU on the bus without device nodes, or nodes that this user may not "
        "open",
    ),
    Check(
        name="npu-smi",
        run=host.npu_smi,
        looks_at="`npu-smi info`, with a time limit of 10 s",
        not_ok="warning: an NPU whose health is not OK; broken on a machine with an NPU, else "
        "warning: it hangs, fails or lists no NPU",
    ),
    Check(
        name="driver",
        run=host.driver,
        looks_at="`driver/version.info` where `/etc/ascend_install.info` says",
        not_ok="warning: absent or unreadable on a machine with an NPU",
    ),
    Check(
        name="firmware",
        run=host.firmware,
        looks_at="`firmware/version.info`, and the range in the driver's `compatible_version_fw`",
        not_ok="broken: outside of the driver's range",
    ),
    Check(
        name="CANN",
        run=cann.cann,
        looks_at="`ascend_toolkit_install.info`, `version.cfg` and `version.info` in "
        "`ASCEND_HOME_PATH` and in the usual places; `LD_LIBRARY_PATH`",
        not_ok="broken on a machine with an NPU, else warning: absent beside torch_npu, "
        "set_env.sh not sourced, ASCEND_HOME_PATH without a CANN, libraries of another CANN; "
        "warning: components of several releases, no version",
    ),
    Check(
        name="torch",
        run=torch_builds.torch,
        looks_at="an import in a child process",
        not_ok="broken: absent, not importable, or a CUDA build beside torch_npu",
    ),
    Check(
        name="torch_npu",
        run=torch_builds.torch_npu,
        looks_at="an import in a child process, as `import torch` would do it",
        not_ok="broken: not importable (warning where there is no NPU and "
        "TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps it out), or it sees no NPU where there is one; "
        "warning: a chip other than A2 and A3",
    ),
    Check(
        name="versions",
        run=pairs.versions,
        looks_at="torch, torch_npu, CANN, vllm and vllm-ascend against the table below",
        not_ok="broken: torch and torch_npu of different releases; warning: a combination that no "
        "source lists",
    ),
    Check(
        name="stream of a launch",
        run=torch_builds.stream,
        looks_at="the handle that a kernel launch on the first NPU would get",
        not_ok="broken: no handle, or the null stream",
    ),
    Check(
        name="streams of TVM-FFI kernels",
        run=torch_builds.tvm_ffi,
        looks_at="the DLPack exchange table, and what a TVM-FFI function in the probe's process is "
        "given, where apache-tvm-ffi is installed",
        not_ok="warning: they would not follow the current stream",
    ),
    Check(
        name="free streams",
        run=torch_builds.free_streams,
        looks_at="`aclrtGetStreamAvailableNum` on the first NPU",
        not_ok="warning: fewer than 248 are left",
    ),
    Check(
        name="simulated NPU",
        run=torch_builds.simulator,
        looks_at="a tensor's round trip in a child process",
        not_ok="broken: it failed; warning: this torch is too old for it",
    ),
    Check(
        name="tilelang dialect",
        run=packages.dialect,
        looks_at="the files of the installed tilelang and pip's RECORD; nothing is imported",
        not_ok="broken: two dialects in one folder, a part of one, or another dialect than the "
        "adapter where an NPU is usable (without one: warning)",
    ),
    Check(
        name="required packages",
        run=packages.required,
        looks_at="pip's metadata, and imports in a child process",
        not_ok="broken: absent or not importable",
    ),
    Check(
        name="optional packages",
        run=packages.optional,
        looks_at="pip's metadata, and imports in a child process",
        not_ok="broken: installed and not importable",
    ),
    Check(
        name="built-in model smollm2",
        run=packages.built_in_model,
        looks_at="pip's metadata",
        not_ok="never",
    ),
    Check(
        name="environment variables",
        run=environment.variables,
        looks_at="the rules in the table below",
        not_ok="warning: a setting that breaks or slows something",
    ),
    Check(
        name="writable folders",
        run=directories.writable,
        looks_at="a temporary file in CANN's log folder, the kernel cache and the folder for "
        "temporary files",
        not_ok="warning: logs or cache cannot be written; broken: no temporary files",
    ),
)
