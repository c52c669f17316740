"""Headless Chromium on a file: its DOM after the scripts, its console, screenshots, PDF."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(BROWSER is None, reason="no chromium: apt install chromium")
_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Visit:
    """What a visit left: the page's elements, and what it wrote to the console."""

    dom: str
    console: list[str]


def visit(page: Path) -> Visit:
    """Open a file and let its scripts run."""
    done = _run(
        page,
        "--dump-dom",
        "--enable-logging=stderr",
        "--virtual-time-budget=2000",
        "--window-size=500,900",
    )
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Visit(dom=done.stdout, console=console)


def screenshot(page: Path, image: Path, *, width: int = 1200, dark: bool = False) -> Path:
    """A picture of the page's beginning, in the browser's light or dark setting."""
    colours = ["--blink-settings=preferredColorScheme=0"] if dark else []
    _run(page, f"--screenshot={image}", f"--window-size={width},1600", *colours)
    return image


def pdf(page: Path, file: Path) -> bytes:
    """The page on paper."""
    _run(page, f"--print-to-pdf={file}", "--no-pdf-header-footer")
    return file.read_bytes()


def _run(page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--disable-gpu", "--hide-scrollbars", *options]
    if os.geteuid() == 0:
        command.append("--no-sandbox")
    profile = page.parent / "browser"
    return subprocess.run(
        [*command, f"--user-data-dir={profile}", page.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=_SECONDS,
    )
