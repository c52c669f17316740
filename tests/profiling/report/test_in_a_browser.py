"""The page in headless Chromium: it opens, sorts, filters, has two colour schemes, and prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profiling import read_profile
from profiling.conditions import Conditions
from profiling.report import build, html, render
from tests.profiling import fixtures
from tests.profiling.report.chromium import needs_chromium, pdf, screenshot, visit

pytest.importorskip("matplotlib")
pytestmark = needs_chromium

#: Sorts and filters the first table as a person would, and leaves the outcome in the title.
_CLICKS = """
const first = document.querySelector("#tasks-0 .grid");
const headers = [...first.querySelectorAll("th button")];
const names = () => [...first.querySelectorAll("tbody tr")].filter((row) => !row.hidden)
  .map((row) => row.cells[0].textContent).join();
const told = [names()];
headers.find((header) => header.textContent === "operator").click(); told.push(names());
headers.find((header) => header.textContent === "tasks").click(); told.push(names());
const input = first.querySelector("input");
input.value = "ai_core"; input.dispatchEvent(new Event("input")); told.push(names());
told.push(first.querySelector(".shown").textContent);
document.getElementById("theme").click(); told.push(document.documentElement.dataset.theme);
told.push(document.documentElement.scrollWidth <= innerWidth ? "fits" : "too wide");
document.title = told.join("|");
"""


def written(folder: Path, files: dict[str, str] = fixtures.ALL) -> Path:
    fixtures.write(folder / "profile", files)
    page = folder / "report.html"
    html.write(build(read_profile(folder / "profile"), Conditions()), page)
    return page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("report"))


def test_it_opens_without_an_error(page: Path) -> None:
    seen = visit(page)
    assert seen.console == []
    assert "</html>" in seen.dom and 'id="sources"' in seen.dom


def test_tables_sort_and_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asset = html._asset

    def with_clicks(name: str) -> str:
        return asset(name) + _CLICKS * (name == "page.js")

    monkeypatch.setattr(html, "_asset", with_clicks)
    seen = visit(written(tmp_path))
    assert seen.console == []
    title = re.search(r"<title>(.*?)</title>", seen.dom)
    assert title is not None
    before, by_name, by_count, filtered, shown, theme, width = title[1].split("|")
    assert sorted(before.split(","), key=str.lower) == by_name.split(",")
    assert sorted(by_count.split(",")) == sorted(before.split(","))
    assert filtered == "MatMulV2" and shown == "1 of 4 rows"
    assert theme in ("light", "dark") and width == "fits"


def test_no_other_script_runs(tmp_path: Path) -> None:
    page = written(tmp_path, fixtures.FLAT)
    text = page.read_text().replace("</main>", "<script>document.title = 'run'</script></main>")
    page.write_text(text)
    seen = visit(page)
    assert "<title>run" not in seen.dom
    assert any("Content Security Policy" in line for line in seen.console)


def brightness(image: Path) -> tuple[float, int]:
    """The mean brightness from 0 to 1, and how many colours there are."""
    pillow = pytest.importorskip("PIL.Image")
    with pillow.open(image) as picture:
        grey = picture.convert("L").resize((64, 64))
        colours = picture.convert("RGB").getcolors(maxcolors=1 << 24)
    return sum(grey.tobytes()) / (255 * 64 * 64), len(colours)


def test_light_and_dark_are_not_blank(page: Path, tmp_path: Path) -> None:
    light, colours = brightness(screenshot(page, tmp_path / "light.png"))
    assert light > 0.8 and colours > 50
    dark, colours = brightness(screenshot(page, tmp_path / "dark.png", dark=True))
    assert dark < 0.3 and colours > 50


def test_on_paper_it_has_pages(page: Path, tmp_path: Path) -> None:
    printed = pdf(page, tmp_path / "report.pdf")
    assert len(re.findall(rb"/Type /Page\b", printed)) >= 2


def test_a_name_cannot_leave_its_cell(tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=\"document.title='run'\"><svg onload='x'>"
    named = fixtures.BASIC_INFO.replace(
        "rms_norm_kernel_mix_aic", '"' + hostile.replace('"', '""') + '"'
    )
    fixtures.write(tmp_path / "<b>", {**fixtures.FLAT, "OpBasicInfo.csv": named})
    page = tmp_path / "report.html"
    page.write_text(render(build(read_profile(tmp_path / "<b>"), Conditions())))
    seen = visit(page)
    assert seen.console == []
    assert "<img" not in seen.dom and "<title>run" not in seen.dom
