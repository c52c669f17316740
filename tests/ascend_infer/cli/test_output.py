"""Tables and findings on a terminal of 80 columns, and piped."""

from __future__ import annotations

import pytest

from ascend_infer.cli import findings, output
from kernels_npu.sim.machine.findings import Finding

COLUMNS = ("kernel", "launches", "GM read B", "GM written B", "instr.", "busiest pipe")
ROW = ("attention_decode", 1200, "123,456,789,012", "98,765,432,109", "1,234,567", "88,888,888 V")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(findings, "terminal_width", lambda: 80)
    monkeypatch.setenv("FORCE_COLOR", "1")


def test_piped_tables_are_aligned_and_never_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table("Simulated NPU", COLUMNS, [ROW, ("x", 1, "2", "3", "4", "5")], note="note")
    title, head, first, second, note = capsys.readouterr().out.splitlines()
    assert (title, note) == ("Simulated NPU", "note")
    for text in map(str, ROW):
        assert text in first
    assert head.index("GM read B") == first.index("123,456") == second.index("2")


@pytest.mark.usefixtures("terminal")
def test_a_table_too_wide_for_the_terminal_is_given_row_by_row(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.print_table("Simulated NPU", COLUMNS, [ROW], note="note")
    lines = capsys.readouterr().out.splitlines()
    assert "  GM read B     123,456,789,012" in lines
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.usefixtures("terminal")
def test_a_table_that_fits_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table("T", ("name", "bytes"), [("a", "123,456")])
    assert "123,456" in capsys.readouterr().out


def _finding(severity: str, count: int) -> Finding:
    return Finding(
        code="AI-RACE-001",
        severity=severity,
        message="bytes [0x12345678, 0x23456789) of a_buffer_with_a_long_name are not ordered",
        kernel="kernel",
        fix="add T.wait_flag before /a/path/that/is/long/enough/to/need/a/line/of/its/own.py:1234",
        count=count,
    )


def test_findings_come_worst_first_with_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    findings.print_findings([_finding("hint", 1), _finding("error", 4000), _finding("hint", 2)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "AI-RACE" in line] == ["ERROR", "HINT", "HINT"]
    assert lines[-1] == "1 error, 2 hints (4,003 occurrences)"
    findings.print_findings([])
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("terminal")
def test_wrapping_breaks_no_number_and_no_path(capsys: pytest.CaptureFixture[str]) -> None:
    findings.print_findings([_finding("error", 1)])
    text = capsys.readouterr().out
    assert "0x12345678," in text and "0x23456789)" in text
    assert "/a/path/that/is/long/enough/to/need/a/line/of/its/own.py:1234" in text
    assert max(len(line) for line in text.splitlines()) <= 80
