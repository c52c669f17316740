"""What vLLM would log and swallow is said before it serves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.cli import main
from ascend_infer.vllm_plugin import report
from ascend_infer.vllm_plugin.decision import Decision
from ascend_infer.vllm_plugin.entry_point import Loading, loadings

ROOT = Path(__file__).parents[3]
OURS = "ascend_infer = ascend_infer.vllm_plugin:register"
#: An editable installation by an import hook, which comes after folders in the working directory.
IMPORT_HOOK = f"""
import importlib.util, os, sys
sys.path[:] = [p for p in sys.path if not p or not os.path.exists(os.path.join(p, "ascend_infer"))]
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        place = os.path.join({str(ROOT)!r}, name, "__init__.py")
        if path is None and os.path.exists(place):
            return importlib.util.spec_from_file_location(name, place)
sys.meta_path.append(Finder)
"""


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`ask({distribution: entry points}, **variables)`: how a server from an empty folder loads."""
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    folder, site = tmp_path / "folder", tmp_path / "site"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def call(plugins: dict[str, str], **variables: str) -> list[Loading]:
        # First on the path: an installation of the environment that runs the tests is hidden.
        for name, points in plugins.items():
            info = site / f"{name.replace('-', '_')}-9.9.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
            (info / "entry_points.txt").write_text(f"[vllm.general_plugins]\n{points}\n")
        for name, value in {"PYTHONPATH": f"{site}:{ROOT}", **variables}.items():
            monkeypatch.setenv(name, value)
        return loadings(os.environ)

    return call


def test_an_installed_plugin_is_loaded_from_its_file(ask: Any) -> None:
    for loading in ask({"ascend-infer": OURS}):
        assert loading.problems == ()
        assert loading.file == str(ROOT / "ascend_infer/vllm_plugin/__init__.py")
        assert loading.installed[0].startswith("9.9 in ")


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        ("other = json:dumps", "no installed package has the entry point ascend_infer"),
        ("ascend_infer = gone:register", "gone:register cannot be imported: ModuleNotFoundError"),
        (
            "ascend_infer = ascend_infer.vllm_plugin:start",
            "ascend_infer.vllm_plugin:start cannot be imported: AttributeError",
        ),
        ("ascend_infer = ends:register", "the import of the plugin ends the process: so be it"),
    ],
)
def test_what_vllm_swallows_is_a_problem(
    points: str, problem: str, ask: Any, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/ends.py").write_text("raise SystemExit('so be it')")
    for loading in ask({"ascend-infer": points}):
        assert loading.problems[0].startswith(problem)
        assert loading.file is None


def test_another_packages_plugin_of_the_same_name(ask: Any) -> None:
    for loading in ask({"ascend-infer": OURS, "a-fork": "ascend_infer = json:dumps"}):
        assert any("several packages have the entry point" in what for what in loading.problems)


@pytest.mark.parametrize("regular", [True, False])
def test_a_folder_of_the_same_name_hides_the_package(
    regular: bool, ask: Any, tmp_path: Path
) -> None:
    """As a package, or without `__init__.py` where the installation is an import hook."""
    (tmp_path / "folder/ascend_infer").mkdir()
    if regular:
        (tmp_path / "folder/ascend_infer/__init__.py").write_text("")
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(IMPORT_HOOK)
    command, in_folder = ask({"ascend-infer": OURS}, PYTHONPATH=str(tmp_path / "site"))
    assert command.problems == () and command.started == "vllm serve"
    assert "No module named 'ascend_infer.vllm_plugin'" in in_folder.problems[0]


@pytest.mark.parametrize(
    ("allowed", "problems"),
    [
        ("ascend_infer,ascend", []),
        ("ascend", ["leaves out ascend_infer"]),
        ("ascend_infer", ["leaves out ascend"]),
        ("", ["leaves out ascend_infer", "leaves out ascend"]),
    ],
)
def test_the_variable_that_chooses_plugins(allowed: str, problems: list[str], ask: Any) -> None:
    points = f"{OURS}\n[vllm.platform_plugins]\nascend = json:dumps"
    for loading in ask({"ascend-infer": OURS, "host": points[len(OURS) :]}, VLLM_PLUGINS=allowed):
        assert [what.partition(" ")[2] for what in loading.problems] == problems


GONE = "ascend_infer = gone:register"


@pytest.mark.parametrize(
    ("asked", "points", "status"), [("all", OURS, 0), ("all", GONE, 1), ("off", GONE, 0)]
)
def test_the_command_fails_where_something_is_asked_for(
    asked: str,
    points: str,
    status: int,
    ask: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ASCEND_INFER_VLLM_OPS", asked)
    monkeypatch.setattr(report, "decision", Decision)  # not the one of an earlier test
    monkeypatch.setattr(report, "refusal", lambda op: None)
    ask({"ascend-infer": points})
    assert main(["vllm", "status"]) == status
    printed = " ".join(capsys.readouterr().out.split())
    says = "gone:register cannot be imported: ModuleNotFoundError: No module named"
    assert (says in printed) == (points == GONE)
    assert main(["vllm", "status", "--json"]) == status
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] == (status == 0)
    assert [loading["started"] for loading in found["loading"]] == [
        "vllm serve",
        "python -m, in this folder",
    ]
