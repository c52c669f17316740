"""The machine: NPU devices, driver and firmware.

`root` stands for the file system's root; tests pass another.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ascend_infer.doctor.probes.version_files import read_keys, reason

#: Huawei as a PCI vendor, and the PCI class of processing accelerators.
_VENDOR, _CLASS = "0x19e5", "0x12"
#: Without these device nodes a process cannot open an NPU.
_MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")
_INSTALL_INFO = "etc/ascend_install.info"
_DEFAULT_HOME = "/usr/local/Ascend"


def devices(root: Path = Path("/")) -> dict[str, Any]:
    """Device nodes, those of them that this user may not open, and NPUs on the PCI bus."""
    nodes = sorted(path for path in (root / "dev").glob("davinci[0-9]*"))
    managers = [root / "dev" / name for name in _MANAGERS]
    missing = [path.name for path in managers if nodes and not path.exists()]
    present = [*nodes, *(path for path in managers if path.exists())] if nodes else []
    return {
        "nodes": [path.name for path in nodes],
        "closed": [path.name for path in present if not os.access(path, os.R_OK | os.W_OK)],
        "missing": missing,
        "pci": sum(map(_is_npu, (root / "sys/bus/pci/devices").glob("*"))),
    }


def _is_npu(device: Path) -> bool:
    try:
        vendor = (device / "vendor").read_text().strip()
        return vendor == _VENDOR and (device / "class").read_text().startswith(_CLASS)
    except (OSError, ValueError):
        return False


def driver(root: Path = Path("/")) -> dict[str, Any]:
    """The driver's version, and the firmware that it works with."""
    return _package(root, "driver", "compatible_version_fw")


def firmware(root: Path = Path("/")) -> dict[str, Any]:
    """The firmware's version."""
    return _package(root, "firmware", "compatible_version_drv")


def _package(root: Path, name: str, compatible: str) -> dict[str, Any]:
    file = root / _home(root, name).lstrip("/") / name / "version.info"
    try:
        keys = read_keys(file)
    except FileNotFoundError:
        return {"found": False, "file": str(file)}
    except OSError as error:
        return {"found": True, "file": str(file), "version": None, "why": reason(error)}
    return {
        "found": True,
        "file": str(file),
        "version": keys.get("version"),
        "package": keys.get("package_version"),
        "compatible": keys.get(compatible),
        "why": "" if "version" in keys else "it has no line Version=",
    }


def _home(root: Path, name: str) -> str:
    """The folder that the installer recorded, else the default one."""
    try:
        keys = read_keys(root / _INSTALL_INFO)
    except OSError:
        keys = {}
    return keys.get(f"{name}_install_path_param") or _DEFAULT_HOME
