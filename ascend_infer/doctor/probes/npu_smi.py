"""`npu-smi info`: what the driver's own tool says, or that it does not answer."""

from __future__ import annotations

import os
import re
import shutil
from typing import Any

from ascend_infer.doctor.asking import run

#: Where containers mount it, although it is not on PATH there.
_PLACES = ("/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi")
#: With eight NPUs it takes about two seconds.
LIMIT_S = 10.0
#: `| 0     910B3     | OK     | 90.7 ...`
_ROW = re.compile(r"^\|\s*(\d+)\s+((?:Ascend)?\d[\w-]*)\s*\|\s*([A-Za-z]+)\s*\|", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_VERSION = re.compile(r"npu-smi\s+(\S+)")


def info(limit_s: float = LIMIT_S) -> dict[str, Any]:
    """The tool's NPUs with their health; it has `limit_s` seconds, and LIMIT_S at most."""
    program = shutil.which("npu-smi") or next(filter(os.path.exists, _PLACES), None)
    if program is None:
        return {"found": False}
    output, failure = run([program, "info"], timeout_s=min(limit_s, LIMIT_S))
    output = _COLOUR.sub("", output)
    version = _VERSION.search(output)
    # It writes its errors to standard output, too.
    said = next((line.strip() for line in output.splitlines() if line.strip()), "")
    return {
        "found": True,
        "program": program,
        "failure": f"{failure}: {said}" if failure and said else failure,
        "version": version[1] if version else None,
        "said": said,
        "npus": [
            {"index": int(number), "name": name, "health": health}
            for number, name, health in _ROW.findall(output)
        ],
    }
