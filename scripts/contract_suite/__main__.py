"""`scripts/contracts`: versions x names, and what is broken."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ascend_infer.vllm_plugin.pins import pinned
from contract_suite.calls import collect
from contract_suite.checks import Find
from contract_suite.download import RELEASES, fetched
from contract_suite.host_text import HOST
from contract_suite.packages import Package
from contract_suite.report import TILELANG, Release, Report, diffs, report_on, table
from contract_suite.snapshot import read_snapshot, write_snapshot

ROOT = Path(__file__).resolve().parents[2]
#: The release whose defaults our calls were written for.
REFERENCE = ROOT / "tests" / "contracts" / "torch_npu-2.13.0.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when every contract holds, 1 when one is broken, 2 when a file is not there."""
    options = _options(arguments)
    if options.cache.resolve().is_relative_to(options.root.resolve()):
        print("error: --cache must be outside the repository", file=sys.stderr)
        return 2
    try:
        named = options.files or options.releases
        paths = [fetched(name, options.cache) for name in named]
        releases = [Release.of(Package(path)) for path in paths]
        known = _pinned_hosts(options.cache) if options.diff else None
        collection = collect(options.root)
    except (OSError, ValueError, SyntaxError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    reference = _reference()
    reports = [
        report_on(release, collection, reference if release.package == "torch_npu" else None, known)
        for release in releases
    ]
    undeclared = collection.undeclared()
    print(table(reports))
    if options.diff:
        print(diffs(reports))
    for line in undeclared:
        print(line)
    if options.snapshots:
        for release, report in zip(releases, reports):
            if not report.broken:
                _write_snapshot(release, report, options.snapshots, options.origin)
    if options.json:
        rows = [dataclasses.asdict(report) | {"broken": report.broken} for report in reports]
        answer = {"undeclared": undeclared, "releases": rows}
        options.json.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    return 1 if undeclared or any(report.broken for report in reports) else 0


def _pinned_hosts(cache: Path) -> dict[str, Package]:
    return {
        release: Package(fetched(f"vllm_ascend=={release}", cache)) for release in pinned()[HOST]
    }


def _reference() -> Find | None:
    return read_snapshot(REFERENCE).get if REFERENCE.exists() else None


def _write_snapshot(release: Release, report: Report, folder: Path, clone: str | None) -> None:
    origin = release.origin
    if clone and release.package == TILELANG:
        origin = dataclasses.replace(origin, file=f"{clone}: {origin.file}")
    names = release.snapshot_names() | {verdict.use.name for verdict in report.verdicts}
    if names:
        path = folder / f"{release.package}-{origin.version}.json"
        write_snapshot(path, origin, release.surface, names)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/contracts",
        description="Check what our code calls in torch_npu, and what the plugin takes hold of in "
        "vllm-ascend, against the files of their releases; nothing is installed or imported.",
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="wheels, sdists, folders, NAME==VERSION through pip, or git+ADDRESS[@COMMIT]",
    )
    parser.add_argument(
        "--releases", nargs="+", default=RELEASES, metavar="NAME==VERSION", help="through pip"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path.home() / ".cache" / "ascend-infer" / "contracts",
        metavar="DIR",
        help="where downloads stay; outside the repository",
    )
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="source to check")
    parser.add_argument("--json", type=Path, metavar="OUT.json", help="write the verdicts")
    parser.add_argument(
        "--snapshots", type=Path, metavar="DIR", help="write signatures of releases that pass"
    )
    parser.add_argument(
        "--diff",
        action="store_true",
        help="show how a host's text differs from that of the nearest release that is pinned",
    )
    parser.add_argument(
        "--origin", metavar="TEXT", help="repository@commit of a tree, to note in its snapshot"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
