"""A page as one HTML file that loads nothing: styles, script and drawings are in it."""

from __future__ import annotations

import base64
import hashlib
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels_npu.errors import EnvironmentProblem
from profiling.printable import printable
from profiling.records import Figure
from profiling.report.view import Page
from profiling.whole_files import write_whole

if TYPE_CHECKING:
    from jinja2 import Environment


def render(page: Page) -> str:
    """The file's text. Whatever comes from a profile is escaped, and no other script can run.

    Raises:
        EnvironmentProblem: AI-PROF-070, jinja2 is missing.
    """
    environment = _environment()
    environment.filters["place"] = partial(_below, page.path)
    script = _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.from_string(_asset("page.html.j2")).render(
        page=page, style=_asset("page.css"), script=script, script_digest=f"sha256-{digest}"
    )


def write(page: Page, path: Path) -> int:
    """Write the file, whole or not at all; its size in bytes.

    Raises:
        UsageError: AI-CLI-004 when it cannot be written.
        EnvironmentProblem: AI-PROF-070, jinja2 is missing.
    """
    data = render(page).encode("utf-8", "backslashreplace")
    write_whole(path, data, "report")
    return len(data)


def _environment() -> Environment:
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise EnvironmentProblem(
            "AI-PROF-070",
            "jinja2 is not installed",
            rule="a page is filled in by jinja2, which the extra `report` brings",
            fix="pip install matplotlib jinja2",
        ) from error

    def finalize(value: Any) -> Any:
        return printable(value) if type(value) is str else value

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    #: For the page's own styles, script and drawings, and nothing that a file says.
    environment.filters["markup"] = Markup
    environment.filters["value"] = _value
    return environment


def _below(root: str, text: object) -> str:
    """The text, with files named below the path of the profile, which the page names once."""
    return str(text).replace(root.rstrip("/") + "/", "") if root.rstrip("/") else str(text)


def _value(figure: Figure) -> str:
    """What a figure reads, with all of its digits that are not the computer's."""
    return str(figure.value) if figure.number is None else f"{figure.number:,.9g}"


@cache
def _asset(name: str) -> str:
    return (files("profiling.report") / "assets" / name).read_text(encoding="utf-8")
