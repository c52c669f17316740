"""`scripts/contracts`: versions x names, and what is broken."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from contract_suite import language
from contract_suite.calls import Use, by_name, collect, root_of
from contract_suite.checks import BROKEN, Verdict, check_all, check_traps
from contract_suite.packages import Package, download
from contract_suite.snapshot import write_snapshot
from contract_suite.surface import Surface

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("2.9.0.post9", "2.11.0.post3", "2.12.0.post3", "2.13.0", "2.14.0")
#: What a file of which distribution is asked for.
_ROOTS_OF = {
    "torch_npu": ("torch.npu", "torch_npu"),
    "vllm_ascend": ("vllm_ascend",),
    "vllm": ("vllm",),
}
_TILELANG = "tilelang"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when every contract holds, 1 when one is broken, 2 when a file is not there."""
    options = _options(arguments)
    if options.cache.resolve().is_relative_to(options.root.resolve()):
        print("error: --cache must be outside the repository", file=sys.stderr)
        return 2
    try:
        paths = options.files or [
            download(f"torch_npu=={version}", options.cache) for version in options.versions
        ]
        packages = [Package(path) for path in paths]
        reports = [_report(package, collect(options.root)) for package in packages]
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for package, report in zip(packages, reports):
        if options.snapshots and not report.broken:
            name = f"{_distribution(package)}-{package.origin.version}.json"
            names = {verdict.use.name for verdict in report.verdicts}
            if report.package == _TILELANG:
                names |= language.all_names(package)
            origin = package.origin
            if options.origin:
                origin = dataclasses.replace(origin, file=f"{options.origin}: {origin.file}")
            write_snapshot(options.snapshots / name, origin, _surface(package), names)
    _print_table(reports)
    if options.json:
        rows = [dataclasses.asdict(report) | {"broken": report.broken} for report in reports]
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 1 if any(report.broken for report in reports) else 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """All verdicts on one file."""

    package: str
    version: str
    verdicts: list[Verdict]
    traps: list[str]

    @property
    def broken(self) -> list[str]:
        """One line per broken contract, with the line of ours that needs it."""
        uses = [
            f"{v.use.file}:{v.use.line}: {v.use.name}: {v.detail}"
            for v in self.verdicts
            if v.verdict in BROKEN
        ]
        return uses + self.traps


def _report(package: Package, uses: list[Use]) -> Report:
    name = _distribution(package)
    surface = _surface(package)
    wanted = [use for use in uses if root_of(use.name) in _ROOTS_OF.get(name, (_TILELANG,))]
    return Report(
        package=name,
        version=package.origin.version,
        verdicts=check_all(wanted, surface.find),
        traps=check_traps(surface.find) if name == "torch_npu" else [],
    )


def _surface(package: Package) -> Surface:
    is_tilelang = _distribution(package) == _TILELANG
    return language.surface(package) if is_tilelang else Surface(package)


def _distribution(package: Package) -> str:
    """By what the archive holds, whatever its file is called."""
    known = (name for name in _ROOTS_OF if package.text(f"{name}/__init__.py") is not None)
    found = next(known, _TILELANG)
    if found == _TILELANG and package.text("tilelang/__init__.py") is None:
        raise ValueError(f"{package.path.name} holds none of {', '.join(_ROOTS_OF)}, tilelang")
    return found


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/contracts",
        description="Check what our code calls in torch_npu against its wheels, unopened.",
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="wheels, sdists, trees")
    parser.add_argument(
        "--versions", nargs="+", default=VERSIONS, metavar="V", help="of torch_npu, through pip"
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
        "--snapshots", type=Path, metavar="DIR", help="write signatures of versions that pass"
    )
    parser.add_argument(
        "--origin", metavar="TEXT", help="repository@commit of a tree, to note in its snapshot"
    )
    return parser.parse_args(arguments)


def _print_table(reports: Sequence[Report]) -> None:
    verdicts = [verdict for report in reports for verdict in report.verdicts]
    names = [name for name, _ in by_name([verdict.use for verdict in verdicts])]
    width = max(map(len, names), default=0)
    print(" " * width, *(f"{report.version:>13}" for report in reports))
    for name in names:
        cells = []
        for report in reports:
            seen = [v.verdict for v in report.verdicts if v.use.name == name]
            worst = next((v for v in seen if v in BROKEN), seen[0] if seen else "-")
            cells.append(f"{worst:>13}")
        print(f"{name:<{width}}", *cells)
    for report in reports:
        state = f"{len(report.broken)} broken" if report.broken else "passes"
        print(f"\n{report.package} {report.version}: {len(report.verdicts)} uses, {state}")
        for line in report.broken:
            print(f"  {line}")


if __name__ == "__main__":
    sys.exit(main())
