"""`report html`: the page of simulated launches, its options and exit codes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.cli import main
from profiling import read_profile
from profiling.analysis import traffic_of
from profiling.conditions import MEANING
from tests.ascend_infer.cli.report.simulated_steps import LAYER, profile
from tests.profiling import fixtures

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return profile(tmp_path_factory.mktemp("layer") / "OPPROF_sim")


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["report", "html", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_the_page_of_a_simulated_layer(
    layer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "layer.html"
    status, told = as_json(capsys, str(layer), "-o", str(page))
    assert status == 0 and told["bytes"] == page.stat().st_size < 1 << 20
    moved = {}
    for kernel in read_profile(layer).kernels:
        traffic = traffic_of(kernel)
        assert traffic is not None
        moved[kernel.name] = traffic.total
    most = max(moved, key=lambda name: moved[name])
    (sentence,) = [s for s in told["summary"] if s["topic"] == "bytes"]
    assert sentence["text"].startswith(f"{most} moves most bytes")
    text = page.read_text()
    assert sentence["text"] in text and all(name in text for name in LAYER)
    assert "Roofline of Ascend910B" in text and "operations per modelled cycle" in text
    assert "modelled cycles" in text and ">MTE2<" in text
    shown = text.partition("<body>")[2].partition("<script>")[0]
    assert not re.search(r"µs|\bus\b", shown), "simulated time is never shown"


def test_people_see_the_same(
    layer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "layer.html"
    conditions = tmp_path / "conditions.json"
    conditions.write_text(json.dumps(dict.fromkeys(MEANING, "as always")))
    assert main(["report", "html", str(layer), "-o", str(page)]) == 0
    assert capsys.readouterr().out.startswith("Not comparable: ")
    complete = ["--conditions", str(conditions), "--chip", "910B3", "--details", "0"]
    assert main(["report", "html", str(layer), "-o", str(page), *complete]) == 0
    out = capsys.readouterr().out
    assert "moves most bytes" in out and "Not comparable" not in out
    text = page.read_text()
    assert "Roofline of Ascend910B3" in text and 'id="kernel-0"' not in text


def test_damage_is_written_down_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixtures.write(tmp_path / "p", {**fixtures.FLAT, "L2Cache.csv": fixtures.L2 + "1,\n"})
    page = tmp_path / "page.html"
    status, told = as_json(capsys, str(tmp_path / "p"), "-o", str(page))
    assert status == 1 and told["damaged"]
    assert "AI-PROF-024" in page.read_text()


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_without_a_library(
    missing: str,
    layer: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    status, told = as_json(capsys, str(layer), "-o", str(tmp_path / "page.html"))
    assert status == 2 and told["error"]["code"] == "AI-PROF-070"
    assert missing in told["error"]["what"] and "pip install" in told["error"]["fix"]
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nothing-here"], "AI-PROF-020"),
        ([".", "--rows", "0"], "AI-CLI-006"),
        ([], "AI-CLI-006"),
    ],
)
def test_wrong_use(
    arguments: list[str], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, told = as_json(capsys, *arguments, "-o", str(tmp_path / "page.html"))
    assert status == 2 and told["error"]["code"] == code
    assert not (tmp_path / "page.html").exists()
