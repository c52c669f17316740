"""CANN, from fabricated installations with the files that real ones have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ascend_infer.doctor.probes import cann
from tests.ascend_infer.doctor.test_host_files import write

INSTALL_INFO = """package_name=Ascend-cann-toolkit
version=8.3.RC2
innerversion=V100R001C23SPC002B210
compatible_version=[V100R001C15],[V100R001C18],[V100R001C19]
arch=aarch64
os=linux
path=/usr/local/Ascend/ascend-toolkit/8.3.RC2/aarch64-linux
"""
VERSION_CFG = """# version: 1.0
runtime_running_version=[7.6.0.1.220:8.0.0]
compiler_running_version=[7.6.0.1.220:8.0.0]
opp_running_version=[7.6.0.1.220:8.0.0]
toolkit_running_version=[7.6.0.1.220:8.0.0]
runtime_upgrade_version=[7.6.0.1.220:7.0.0]
"""


def installations(root: Path, **variables: str) -> dict[str, Any]:
    return cann.installations({"HOME": str(root / "home"), **variables}, root)


def test_nothing(tmp_path: Path):
    found = installations(tmp_path)
    assert (found["home"], found["at_home"], found["elsewhere"]) == ("", None, [])


def test_the_layout_up_to_8_3(tmp_path: Path):
    toolkit = tmp_path / "usr/local/Ascend/ascend-toolkit"
    write(toolkit, "8.3.RC2/aarch64-linux/ascend_toolkit_install.info", INSTALL_INFO)
    write(toolkit, "8.3.RC2/lib64/libascendcl.so", "")
    write(toolkit, "set_env.sh", "")
    (toolkit / "latest").symlink_to("8.3.RC2")
    (found,) = installations(tmp_path)["elsewhere"]
    assert found["path"] == str(toolkit / "latest") and found["version"] == "8.3.RC2"
    assert found["set_env"] == str(toolkit / "set_env.sh")


@pytest.mark.parametrize("sourced", ["latest/lib64", "8.0.RC3/aarch64-linux/lib64", "9.9/lib64"])
def test_latest_as_a_folder_of_links(tmp_path: Path, sourced: str):
    toolkit = tmp_path / "usr/local/Ascend/ascend-toolkit"
    for version in ("8.0.RC3/aarch64-linux", "9.9"):
        write(toolkit, f"{version}/lib64/libascendcl.so", "")
    latest = toolkit / "latest"
    latest.mkdir()
    (latest / "lib64").symlink_to("../8.0.RC3/aarch64-linux/lib64")
    found = installations(
        tmp_path, ASCEND_HOME_PATH=str(latest), LD_LIBRARY_PATH=f":/nowhere:{toolkit / sourced}"
    )
    assert found["library_is_home"] == (sourced != "9.9/lib64")


def test_the_layout_since_8_5(tmp_path: Path):
    ascend = tmp_path / "usr/local/Ascend"
    info = INSTALL_INFO.replace("8.3.RC2", "9.1.0")
    write(ascend, "cann-9.1.0/x86_64-linux/ascend_toolkit_install.info", info)
    write(ascend, "cann-9.1.0/set_env.sh", "")
    write(ascend, "cann-8.5.0/x86_64-linux/ascend_toolkit_install.info", INSTALL_INFO)
    (ascend / "cann").symlink_to("cann-9.1.0")
    first, second = installations(tmp_path)["elsewhere"]
    assert first["version"] == "9.1.0" and first["set_env"] == str(ascend / "cann/set_env.sh")
    assert second["version"] == "8.3.RC2"


def test_in_the_home_folder(tmp_path: Path):
    write(tmp_path, "home/Ascend/cann/version.cfg", VERSION_CFG)
    (found,) = installations(tmp_path)["elsewhere"]
    assert found["version"] == "8.0.0" and set(found["components"].values()) == {"8.0.0"}
    assert len(found["components"]) == 4


def test_components_of_several_releases(tmp_path: Path):
    mixed = VERSION_CFG.replace(
        "opp_running_version=[7.6.0.1.220:8.0.0]", "opp_running_version=[7:8.1.RC1]"
    )
    write(tmp_path, "version.cfg", mixed)
    assert cann.describe(tmp_path)["components"]["opp"] == "8.1.RC1"


def test_the_runtime_s_own_version(tmp_path: Path):
    write(tmp_path, "runtime/version.info", "Version=8.5.0\n")
    assert cann.describe(tmp_path)["version"] == "8.5.0"


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "it has no version file"),
        ({"version.cfg": b"\x00\xff" * 99}, "no version in version.cfg"),
        (
            {"x86_64-linux/ascend_toolkit_install.info": b"version=\n"},
            "ascend_toolkit_install.info",
        ),
        ({"version.info": b"", "opp/version.info": b"\xfe"}, "version.info, opp/version.info"),
    ],
)
def test_versions_that_cannot_be_told(files: dict[str, bytes], why: str, tmp_path: Path):
    (tmp_path / "cann").mkdir()
    for name, content in files.items():
        write(tmp_path / "cann", name, content)
    found = cann.describe(tmp_path / "cann")
    assert found["version"] is None and why in found["why"]


def test_ascend_home_path_that_names_nothing(tmp_path: Path):
    write(tmp_path, "file", "")
    for name, why in (("absent", "No such file or directory"), ("file", "Not a directory")):
        found = installations(tmp_path, ASCEND_HOME_PATH=str(tmp_path / name))["at_home"]
        assert (found["readable"], found["why"]) == (False, why)


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(path: object) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(cann.os, "listdir", refuse)
    found = cann.describe(tmp_path)
    assert (found["readable"], found["why"]) == (False, "Permission denied")


def test_the_libraries_that_would_be_loaded(tmp_path: Path):
    for name in ("old", "new"):
        write(tmp_path, f"{name}/lib64/libascendcl.so", "")
        write(tmp_path, f"{name}/version.cfg", VERSION_CFG)
    (tmp_path / "latest").symlink_to("new")
    home, paths = str(tmp_path / "latest"), [str(tmp_path / n / "lib64") for n in ("new", "old")]
    sourced = installations(
        tmp_path, ASCEND_HOME_PATH=home, LD_LIBRARY_PATH="/x::" + ":".join(paths)
    )
    assert sourced["library_is_home"] and sourced["library"] == paths[0]
    other = installations(
        tmp_path, ASCEND_HOME_PATH=home, LD_LIBRARY_PATH=":".join(reversed(paths))
    )
    assert not other["library_is_home"] and other["library"] == paths[1]
    assert installations(tmp_path, ASCEND_HOME_PATH=home)["library"] == ""
    toolkit_only = installations(tmp_path, ASCEND_TOOLKIT_HOME=home)
    assert toolkit_only["at_home"]["version"] == "8.0.0"
