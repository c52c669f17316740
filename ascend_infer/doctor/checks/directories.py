"""Folders that have to be writable."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_infer.doctor.report import BROKEN, OK, WARNING, Finding, Situation

#: Folder -> what it is, its verdict when it cannot be written, and what to do then.
_FOLDERS = {
    "logs": (
        "CANN's logs",
        WARNING,
        "export ASCEND_PROCESS_LOG_PATH to a folder that you may write to; without logs "
        "`ascend-infer diagnose` finds nothing",
    ),
    "kernels": (
        "compiled kernels",
        WARNING,
        "export TILELANG_CACHE_DIR to a folder that you may write to",
    ),
    "temporary": (
        "temporary files",
        BROKEN,
        "export TMPDIR to a folder that you may write to, with free space",
    ),
}
_GIB = 1 << 30


def writable(situation: Situation) -> Iterator[Finding]:
    """One finding for each folder that cannot be written, or one for all."""
    name, found = "writable folders", situation.values("directories")
    if failure := situation.failure("directories"):
        yield Finding(
            name=name,
            verdict=WARNING,
            evidence=failure,
            advice="see whether the home folder is on a dead mount",
        )
        return
    bad = [key for key in _FOLDERS if found[key]["why"]]
    for key in bad:
        purpose, verdict, advice = _FOLDERS[key]
        answer = found[key]
        at = f" ({answer['tried']})" if answer["tried"] != answer["folder"] else ""
        yield Finding(
            name=f"{name}: {purpose}",
            verdict=verdict,
            evidence=f"{answer['folder'] or 'no folder'}{at}: {answer['why']}",
            advice=advice,
        )
    if not bad:
        folders = (
            f"{_FOLDERS[key][0]} in {found[key]['folder']} ({found[key]['free'] / _GIB:.0f} GiB "
            "free)"
            for key in _FOLDERS
        )
        yield Finding(name=name, verdict=OK, evidence=", ".join(folders))
