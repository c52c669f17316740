"""matplotlib's figures as SVG inside a page: colours are the page's, text stays text.

Colours are drawn as placeholders and become CSS variables, so that one drawing serves light, dark
and print.
"""

from __future__ import annotations

import contextlib
import html
import io
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kernels_npu.errors import EnvironmentProblem
from profiling.printable import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Names of the page's colours; `INK["mte2"]` is the placeholder for `var(--mte2)`.
_NAMES = (
    *("ink", "muted", "grid", "raised", "accent", "warn"),
    *("cube", "vec", "scalar", "mte1", "mte2", "mte3", "fixpipe"),
)
INK = {name: f"#0e0f{number:02x}" for number, name in enumerate(_NAMES)}
_PLACEHOLDER = re.compile("|".join(INK.values()))
_VARIABLES = {colour: f"var(--{name})" for name, colour in INK.items()}

_STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9.0,
    "axes.edgecolor": INK["grid"],
    "axes.facecolor": "none",
    "axes.labelcolor": INK["muted"],
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "grid.color": INK["grid"],
    "grid.linewidth": 0.6,
    "text.color": INK["ink"],
    "xtick.color": INK["grid"],
    "ytick.color": INK["grid"],
    "xtick.labelcolor": INK["muted"],
    "ytick.labelcolor": INK["ink"],
}
#: Inches; text of nine points is then readable on a page of a thousand pixels and on paper.
WIDTH = 9.6

_HEAD = re.compile(r"^.*?(?=<svg)", re.DOTALL)
#: What is not for a page: descriptions, a style that would hold for all of it, names of fonts.
_UNWANTED = re.compile(
    r"\s*<metadata>.*?</metadata>|\s*<style.*?</style>|(?<=;) font-family: [^;\"]*;", re.DOTALL
)
_PATH = re.compile(r' d="[^"]*"')
#: Hundredths of a point cannot be seen.
_DIGITS = re.compile(r"(\.\d\d)\d+")
_GROUP = re.compile(r'<g id="([^"]*)"([^>]*)>')


@contextlib.contextmanager
def drawing(name: str, height: float, described: str) -> Iterator[Drawing]:
    """A figure to draw on; afterwards `svg` holds it.

    name: unique on the page. height: in inches. described: for those who cannot see it.

    Raises:
        EnvironmentProblem: AI-PROF-070, matplotlib is missing.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise EnvironmentProblem(
            "AI-PROF-070",
            "matplotlib is not installed",
            rule="plots are drawn by matplotlib, which the extra `report` brings",
            fix="pip install matplotlib jinja2",
        ) from error
    # Identifiers within a drawing are hashed with the salt: those of two drawings must differ.
    style: Any = {**_STYLE, "svg.hashsalt": name}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        # The page's fonts have the characters that matplotlib's lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        done = Drawing(figure)
        yield done
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
        done.svg = _for_a_page(stream.getvalue(), done.titles, described)


class Drawing:
    """A figure, what its parts are called, and in the end its markup."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.titles: dict[str, str] = {}
        self.svg = ""

    def entitle(self, title: str) -> str:
        """An identifier for an artist that shows `title` when one points at it."""
        identifier = f"title-{len(self.titles)}"
        self.titles[identifier] = printable(title)
        return identifier


def _for_a_page(svg: str, titles: dict[str, str], described: str) -> str:
    svg = _UNWANTED.sub("", _HEAD.sub("", svg))
    svg = _PATH.sub(lambda path: _DIGITS.sub(r"\1", path[0]), svg)
    svg = _PLACEHOLDER.sub(lambda found: _VARIABLES[found[0]], svg)
    # Groups are numbered alike in every drawing, which one page must not have.
    svg = _GROUP.sub(lambda found: f"<g{found[2]}>{_title(titles.get(found[1]))}", svg)
    label = html.escape(described, quote=True)
    return re.sub(
        r"<svg[^>]*?(viewBox=\"[^\"]*\")[^>]*>",
        lambda found: (
            f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" {found[1]} role="img" '
            f'aria-label="{label}">'
        ),
        svg,
        count=1,
    )


def _title(title: str | None) -> str:
    return "" if title is None else f"<title>{html.escape(title)}</title>"
