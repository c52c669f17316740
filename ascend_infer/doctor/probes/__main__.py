"""The program of a child process, with a probe and its seconds: answers section by section.

Each answer is printed as soon as it is known, so that a later section that hangs or crashes does
not take the earlier ones with it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from ascend_infer.doctor.asking import MARK
from ascend_infer.doctor.probes import cann, directories, host, npu, npu_smi, packages, torch_build
from ascend_infer.doctor.probes.causes import cause

#: What a command of the probe may take of the probe's own time.
_SHARE = 0.8


Sections = dict[str, Callable[[], dict[str, Any]]]


def sections(probe: str, limit_s: float) -> Sections:
    """The questions of one probe, which has `limit_s` seconds for all of them."""
    probes: dict[str, Sections] = {
        "torch": {"torch": torch_build.build, "simulator": torch_build.simulator},
        "torch_npu": {
            "torch_npu": npu.package,
            "stream": npu.stream,
            "streams": npu.free_streams,
            "tvm_ffi": npu.tvm_ffi,
        },
        "packages": {
            "versions": packages.versions,
            "dialect": packages.dialect,
            "imports": packages.imports,
        },
        "host": {
            "devices": host.devices,
            "driver": host.driver,
            "firmware": host.firmware,
            "cann": cann.installations,
            "directories": directories.directories,
        },
        "npu-smi": {"npu-smi": partial(npu_smi.info, _SHARE * limit_s)},
    }
    return probes[probe]


#: Probes whose later sections need what the first one imports.
_DEPENDENT = ("torch", "torch_npu")


def main() -> None:
    """Answer the sections of the probe that the command line names."""
    probe, limit_s = sys.argv[1], float(sys.argv[2])
    failed = ""
    for section, answer in sections(probe, limit_s).items():
        if failed and probe in _DEPENDENT:
            _say(section, {}, f"not asked, because {failed} failed")
            continue
        try:
            _say(section, answer(), "")
        except BaseException as error:  # noqa: BLE001 - whatever a broken package raises
            failed = failed or section
            _say(section, {}, cause(error))


def _say(section: str, values: dict[str, Any], failure: str) -> None:
    answer = json.dumps({"section": section, "values": values, "failure": failure}, default=str)
    # A line of its own, also after a library that left its line open.
    print(f"\n{MARK}{answer}", flush=True)


if __name__ == "__main__":
    main()
