"""Devices, driver, firmware, folders and npu-smi, from fabricated trees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ascend_infer.doctor.probes import directories, host, npu_smi
from ascend_infer.doctor.probes.version_files import read_keys

DRIVER = """Version=25.0.rc1.1
ascendhal_version=7.35.23
Innerversion=V100R001C21SPC002B220
compatible_version=[V100R001C19],[V100R001C20],[V100R001C21]
compatible_version_fw=[6.4.0,6.4.99],[7.0.0,7.7.99]
package_version=25.0.rc1.1
"""
_LINE = "+" + 96 * "-" + "+"
SMI = f"""{_LINE}
| npu-smi 25.0.rc1.1               Version: 25.0.rc1.1                                           |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 101.8       43                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3318 / 65536         |
+===========================+===============+====================================================+
| 7     Ascend910           | Alarm         | 92.0        39                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3318 / 65536         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
| 7       0                 | 499214        | python                   | 26322                   |
"""


def write(root: Path, name: str, text: str | bytes) -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def pci(root: Path, address: str, vendor: str, class_code: str) -> None:
    write(root, f"sys/bus/pci/devices/{address}/vendor", f"{vendor}\n")
    write(root, f"sys/bus/pci/devices/{address}/class", f"{class_code}\n")


def test_devices(tmp_path: Path):
    for name in ("davinci0", "davinci1", "davinci_manager", "devmm_svm", "null"):
        write(tmp_path, f"dev/{name}", "")
    pci(tmp_path, "0000:c1:00.0", "0x19e5", "0x120000")
    pci(tmp_path, "0000:01:00.0", "0x19e5", "0x020000")  # a network card of the same vendor
    pci(tmp_path, "0000:02:00.0", "0x10de", "0x120000")
    write(tmp_path, "sys/bus/pci/devices/0000:03:00.0/vendor", b"\xff\xfe")
    found = host.devices(tmp_path)
    assert found["nodes"] == ["davinci0", "davinci1"] and found["pci"] == 1
    assert found["missing"] == ["hisi_hdc"] and found["closed"] == []


def test_devices_that_may_not_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("davinci0", "davinci_manager", "devmm_svm", "hisi_hdc"):
        write(tmp_path, f"dev/{name}", "")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "davinci0")
    assert host.devices(tmp_path)["closed"] == ["davinci0"]


def test_no_devices(tmp_path: Path):
    assert host.devices(tmp_path) == {"nodes": [], "closed": [], "missing": [], "pci": 0}


def test_driver_and_firmware_where_the_installer_says(tmp_path: Path):
    write(
        tmp_path,
        "etc/ascend_install.info",
        "UserName=HwHiAiUser\nDriver_Install_Path_Param=/opt/hdk\n",
    )
    write(tmp_path, "opt/hdk/driver/version.info", DRIVER)
    write(tmp_path, "usr/local/Ascend/firmware/version.info", "Version=7.7.0.1.231\n")
    driver, firmware = host.driver(tmp_path), host.firmware(tmp_path)
    assert driver["version"] == driver["package"] == "25.0.rc1.1"
    assert driver["compatible"] == "[6.4.0,6.4.99],[7.0.0,7.7.99]" and driver["why"] == ""
    assert firmware["version"] == "7.7.0.1.231"


@pytest.mark.parametrize(
    "content", [b"", b"\x00\xff\xfe" * 999, "Version=\xe9\x00x".encode(), b"x" * 9]
)
def test_junk_in_a_version_file(content: bytes, tmp_path: Path):
    write(tmp_path, "usr/local/Ascend/driver/version.info", content)
    found = host.driver(tmp_path)
    assert found["version"] is None and found["why"] == "it has no line Version="


def test_a_version_file_that_is_a_folder(tmp_path: Path):
    (tmp_path / "usr/local/Ascend/driver/version.info").mkdir(parents=True)
    assert host.driver(tmp_path)["why"] == "Is a directory"
    assert host.firmware(tmp_path)["found"] is False


def test_keys_of_a_long_binary_file(tmp_path: Path):
    file = write(tmp_path, "version.info", b"Version=1.2\n" + os.urandom(3 << 20))
    assert read_keys(file)["version"] == "1.2"


def smi(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = write(folder, "npu-smi", f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_npu_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, "answer", SMI)
    smi(tmp_path, f"cat {tmp_path}/answer", monkeypatch)
    found = npu_smi.info()
    assert found["failure"] == "" and found["version"] == "25.0.rc1.1"
    assert found["npus"] == [
        {"index": 0, "name": "910B3", "health": "OK"},
        {"index": 7, "name": "Ascend910", "health": "Alarm"},
    ]


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ("echo 'dcmi model initialized failed, because the device is used. ret is -8020' >&2; "
         "exit 1", "dcmi model initialized failed, because the device is used. ret is -8020"),
        ("echo; echo 'dcmi module initialize failed. ret is -8005'; exit 244",
         "exit code 244 without a message: dcmi module initialize failed. ret is -8005"),
        ("sleep 60 & sleep 60", "no answer within 0.5 s"),
        ("kill -11 $$", "the process was ended by signal 11"),
        ("printf '\\377\\376 junk'", ""),
    ],
)  # fmt: skip
def test_npu_smi_that_fails(
    body: str, failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    smi(tmp_path, body, monkeypatch)
    found = npu_smi.info(limit_s=0.5)
    assert found["found"] and found["failure"] == failure and found["npus"] == []


def test_npu_smi_in_colour_and_of_several_chips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    row = "| {}     {:<20}| {:<14}| -           36                0    / 0             |\n"
    chip = "| {0}     {0}                   | 0000:9D:00.0  | 0           0    / 0          |\n"
    names = ["Ascend910", "Ascend910", "310P3", "Ascend950PR", "910B4-1"]
    rows = [row.format(i // 2, name, "OK") + chip.format(i) for i, name in enumerate(names)]
    write(tmp_path, "answer", "\x1b[1m" + "\x1b[0m\x1b[1m".join(rows) + "\x1b[0m")
    smi(tmp_path, f"cat {tmp_path}/answer", monkeypatch)
    assert [npu["name"] for npu in npu_smi.info()["npus"]] == names


def test_npu_smi_of_another_architecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = write(tmp_path, "npu-smi", b"\x7fELF\x02\x01\x01" + bytes(57))
    file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "cannot be started" in npu_smi.info()["failure"]


def test_no_npu_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(npu_smi, "_PLACES", ())
    assert npu_smi.info() == {"found": False}


def test_writable_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    found = directories.directories({})
    assert found["logs"]["folder"] == str(tmp_path / "ascend/log")
    assert found["logs"]["tried"] == str(tmp_path)
    assert found["kernels"]["folder"] == str(tmp_path / ".tilelang/cache-adapter")
    assert all(answer["why"] == "" and answer["free"] > 0 for answer in found.values())
    assert list(tmp_path.iterdir()) == []


def test_folders_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, "file", "")
    monkeypatch.setattr(directories.tempfile, "gettempdir", lambda: str(tmp_path / "file"))
    found = directories.directories(
        {"ASCEND_PROCESS_LOG_PATH": str(tmp_path / "file/log"), "TILELANG_CACHE_DIR": "/proc/1/x"}
    )
    assert found["logs"]["why"] == "Not a directory"
    assert found["kernels"]["tried"] == "/proc/1" and found["kernels"]["why"]
    assert found["temporary"]["why"] == "Not a directory"


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch):
    def fail() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(directories.tempfile, "gettempdir", fail)
    assert "No usable" in directories.directories({})["temporary"]["why"]
