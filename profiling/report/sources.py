"""Where the numbers of a page come from: files, manifests, conditions."""

from __future__ import annotations

from collections.abc import Iterator

from profiling.analysis.listing import files_of
from profiling.conditions import MEANING, Conditions
from profiling.manifest import Manifest
from profiling.records import Profile
from profiling.report.view import Grid, Section, limited, number_cell, text_cell


def sources_section(profile: Profile, conditions: Conditions, most: int) -> Section:
    """Every file with its evidence, what made it, and under which conditions."""
    rows = [
        (text_cell(kind), number_cell(rows), text_cell(evidence), text_cell(file))
        for kind, rows, evidence, file in files_of(profile)
    ]
    kept, left_out = limited(rows, most)
    files = Grid(
        title="Files",
        columns=("kind", "rows", "evidence", "file"),
        rows=kept,
        left_out=left_out,
    )
    manifests = [_manifest(manifest) for manifest in profile.manifests[:most]]
    return Section(
        anchor="sources",
        title="Where the numbers come from",
        grids=(files, *manifests, _conditions(conditions)),
    )


def _manifest(manifest: Manifest) -> Grid:
    return Grid(
        title=f"Made by {manifest.made_by}",
        columns=("what", "value"),
        rows=tuple((text_cell(name), text_cell(value)) for name, value in _fields(manifest)),
    )


def _fields(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for name, value in manifest.to_dict().items():
        if isinstance(value, dict):
            yield from ((f"{name}: {key}", str(inner)) for key, inner in value.items())
        elif isinstance(value, list):
            yield name, " ".join(map(str, value))
        elif value not in (None, ""):
            yield name, str(value)


def _conditions(conditions: Conditions) -> Grid:
    return Grid(
        title="Conditions of the measurement",
        columns=("condition", "as it was"),
        rows=tuple(
            (text_cell(meaning), text_cell(getattr(conditions, name) or "not written down"))
            for name, meaning in MEANING.items()
        ),
    )
