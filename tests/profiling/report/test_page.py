"""What a page holds, whatever was read; and that nothing in it is what a file wanted it to be."""

from __future__ import annotations

import dataclasses
import re
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kernels_npu.errors import UsageError
from kernels_npu.evidence import Evidence
from profiling import Profile, read_profile
from profiling.conditions import MEANING, Conditions
from profiling.devices import get_chip
from profiling.printable import printable
from profiling.records import Span, Trace
from profiling.report import Page, ReportOptions, build, render, write
from profiling.report.plots.timeline import MOST_TRACKS, timeline
from tests.profiling import fixtures

pytest.importorskip("matplotlib")
COMPLETE = Conditions(**dict.fromkeys(MEANING, "as always"))


class Reader(HTMLParser):
    """Tags with their attributes, in order; text by the section that it is in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def profile(folder: Path, files: dict[str, str]) -> Profile:
    return read_profile(fixtures.write(folder, files))


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page of a folder with all kinds of files."""
    return build(profile(tmp_path_factory.mktemp("all"), dict(fixtures.ALL)), COMPLETE)


def anchors(page: Page) -> list[str]:
    return [section.anchor for section in page.sections]


def test_every_kind_of_file_has_its_place(everything: Page) -> None:
    page = everything
    assert anchors(page)[:3] == ["summary", "roofline", "launches"]
    assert {"timeline-0", "kernels", "operators", "tables"} <= set(anchors(page))
    assert anchors(page)[-1] == "sources"
    files = page.sections[-1].grids[0]
    assert len(files.rows) == len(fixtures.ALL)
    text = render(page)
    for name in fixtures.ALL:
        assert name.rpartition("/")[2] in text
    assert "12.25" in text and "OpBasicInfo.csv:2, npu-measured" in text
    assert "1.635556" not in text, "a simulator's time is not shown"


def test_it_loads_nothing(everything: Page) -> None:
    read = Reader(render(everything))
    assert {name for name, _ in read.tags} & {"svg", "table", "figure"}
    assert not {name for name, _ in read.tags} & {"link", "img", "iframe", "object", "embed"}
    addresses = [
        value
        for _, attributes in read.tags
        for name, value in attributes.items()
        if name in ("src", "href", "xlink:href") and value
    ]
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert "http-equiv" in read.named("meta")[3]


def test_links_lead_to_one_place(everything: Page) -> None:
    read = Reader(render(everything))
    found = [a["id"] for _, a in read.tags if "id" in a]
    assert len(found) == len(set(found))
    links = {str(a["href"]) for a in read.named("a")}
    assert "#kernel-0" in links and links <= {f"#{identifier}" for identifier in found}


def test_the_first_line_says_which_conditions_are_missing(tmp_path: Path) -> None:
    read = profile(tmp_path, dict(fixtures.FLAT))
    body = render(build(read, Conditions(load="1"))).partition("<body>")[2].strip()
    assert body.startswith('<p class="headline" role="alert">Not comparable: 11 of 12')
    assert "Not comparable" not in render(build(read, COMPLETE))


def test_the_roofline_of_a_chip(tmp_path: Path) -> None:
    arithmetic = (
        "block_id,sub_block_id,aic_time(us),aic_cube_fp16_ratio,aic_cube_fops,\n"
        "0,cube0,4.0,0.5,123456789,\n"
    )
    read = profile(tmp_path, {**fixtures.FLAT, "ArithmeticUtilization.csv": arithmetic})
    roofline = build(read, COMPLETE, get_chip("Ascend910B2")).sections[1]
    (plot,) = roofline.plots
    assert "Ascend910B2" in plot.title and "rms_norm_kernel_mix_aic" in plot.svg
    assert "billion operations per second" in plot.svg
    (without,) = [s for s in build(read, COMPLETE).sections if s.anchor == "roofline"]
    assert not without.plots and "--chip" in without.lead


def test_nothing_is_said_about_bytes_that_no_file_has(tmp_path: Path) -> None:
    files = {
        f"k/{n}/OpBasicInfo.csv": fixtures.BASIC_INFO.replace("12.25", f"{n + 1}2.25")
        for n in range(3)
    }
    page = build(profile(tmp_path, files), COMPLETE)
    by_anchor = {section.anchor: section for section in page.sections}
    (grid,) = by_anchor["launches"].grids
    assert grid.title == "Longest first"
    (kernel,) = by_anchor["kernels"].sections
    assert kernel.lead == "Launch k/2, the one of 3 that takes longest."
    flat = build(profile(tmp_path / "flat", dict(fixtures.FLAT)), COMPLETE)
    (section,) = (s for s in flat.sections if s.anchor == "kernels")
    assert section.sections[0].lead == "The launch."


def test_what_steps_ask_for_stands_in_the_summary(tmp_path: Path) -> None:
    header = "Step,Computing,Communication(Not Overlapped),Free\n"
    idle = profile(tmp_path / "a", {"step_trace_time.csv": header + "7,100,100,800\n"})
    busy = profile(tmp_path / "b", {"step_trace_time.csv": header + "7,900,50,50\n"})
    summary = build(idle, COMPLETE).sections[0]
    assert [finding.sentence.topic for finding in summary.findings] == ["step"]
    summary = build(busy, COMPLETE).sections[0]
    assert not summary.findings and summary.lead == "No kernels, and nothing asks for a change."


def test_rows_and_kernels_are_limited_and_counted(tmp_path: Path) -> None:
    for number in range(7):
        text = fixtures.BASIC_INFO.replace("rms_norm_kernel", f"kernel_{number}")
        fixtures.write(tmp_path / str(number), {"OpBasicInfo.csv": text})
    page = build(read_profile(tmp_path), COMPLETE, options=ReportOptions(rows=3, details=2))
    launches = next(s for s in page.sections if s.anchor == "launches").grids[0]
    assert (len(launches.rows), launches.left_out) == (3, 4)
    kernels = next(s for s in page.sections if s.anchor == "kernels")
    assert len(kernels.sections) == 2 and "5 further kernels" in kernels.lead


HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "$\\frac{1}{0}$ & <b>",
    "{{ 7 * 7 }}{% raw %}",
    "a\u202eb\u2028c",
    "核函数 ядро 🚀",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text_everywhere(tmp_path: Path, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    basic = fixtures.BASIC_INFO.replace("rms_norm_kernel_mix_aic", quoted)
    details = fixtures.KERNEL_DETAILS_1.replace("MatMulV2", quoted)
    trace = fixtures.TRACE.replace("Stream 2", name.replace("\\", "\\\\").replace('"', '\\"'))
    read = profile(
        tmp_path,
        {**fixtures.FLAT, "OpBasicInfo.csv": basic, "kernel_details.csv": details, "t.json": trace},
    )
    told = Reader(render(build(read, COMPLETE)))
    assert printable(name) in "".join(told.text)
    assert len(told.named("script")) == 1 and not told.named("img") and not told.named("b")
    assert not [a for _, a in told.tags if any(key.startswith("on") for key in a)]


def trace(tracks: int, spans: int) -> Trace:
    return Trace(
        file="trace.json",
        others=0,
        evidence=Evidence.MODELLED,
        spans=tuple(
            Span(
                name="VADD",
                process=f"core {track // 4}",
                track=("MTE2", "V", "MTE3", "S")[track % 4],
                start=Decimal(10 * number),
                duration=Decimal(9),
            )
            for track in range(tracks)
            for number in range(spans)
        ),
    )


def test_a_large_trace_becomes_a_small_drawing() -> None:
    plot = timeline(trace(60, 1000), "timeline")
    assert plot is not None
    assert len(plot.svg) < 1_300_000
    assert f"{60 - MOST_TRACKS} of 60 tracks" in plot.left_out
    assert plot.svg.count("1,000 spans, active 90.0%") == MOST_TRACKS


@pytest.mark.parametrize(
    ("unit", "evidence", "label"),
    [
        ("cycles", Evidence.MODELLED, "modelled cycles"),
        ("us", Evidence.MODELLED, "which is not a time"),
        ("us", Evidence.NPU_MEASURED, "µs since"),
    ],
)
def test_what_the_axis_is(unit: str, evidence: Evidence, label: str) -> None:
    plot = timeline(dataclasses.replace(trace(2, 500), unit=unit, evidence=evidence), "timeline")
    assert plot is not None and label in plot.svg
    assert (">4,000<" in plot.svg) is (label != "which is not a time")


def test_an_empty_trace_has_no_drawing() -> None:
    assert timeline(trace(0, 0), "timeline") is None


def test_colours_are_the_pages(tmp_path: Path) -> None:
    plot = timeline(trace(4, 2), "timeline")
    assert plot is not None and "var(--mte2)" in plot.svg
    assert not re.search(r"#0e0f", plot.svg)


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    page = build(profile(tmp_path / "profile", dict(fixtures.FLAT)), COMPLETE)
    with pytest.raises(UsageError, match="AI-CLI-004"):
        write(page, tmp_path / "nowhere" / "report.html")
    (tmp_path / "report.html").mkdir()
    with pytest.raises(UsageError, match="AI-CLI-004"):
        write(page, tmp_path / "report.html")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["profile", "report.html"]
