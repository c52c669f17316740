"""Verdicts on one release, and the table of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from contract_suite import language
from contract_suite.checks import BROKEN, Find, Verdict, check_all, check_traps
from contract_suite.packages import Origin, Package
from contract_suite.surface import Surface
from contract_suite.uses import Collection, by_name, root_of

TILELANG = "tilelang"
#: What a file of which distribution is asked for.
_ROOTS_OF = {
    "torch_npu": ("torch.npu", "torch_npu"),
    "vllm_ascend": ("vllm_ascend",),
    "vllm": ("vllm",),
    TILELANG: (TILELANG,),
}
#: Methods of stand-ins that a library defines, which no source lists.
_NATIVE = frozenset({"torch.npu.NPUGraph.enable_debug_mode"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Release:
    """One file, by what it holds, whatever it is called."""

    package: str
    origin: Origin
    surface: Surface

    @classmethod
    def of(cls, package: Package) -> Release:
        """Raises ValueError where the file holds no package that is known."""
        known = (name for name in _ROOTS_OF if package.text(f"{name}/__init__.py") is not None)
        name = next(known, None)
        if name is None:
            raise ValueError(f"{package.path.name} holds none of {', '.join(_ROOTS_OF)}")
        surface = language.surface(package) if name == TILELANG else Surface(package)
        return cls(package=name, origin=package.origin, surface=surface)

    def snapshot_names(self) -> set[str]:
        """Public names of what is stood in for: all of torch.npu, the whole language."""
        if self.package == TILELANG:
            return language.all_names(self.surface.package)
        if self.package != "torch_npu":
            return set()
        exports = self.surface.exports(self.surface.path("torch.npu")) or frozenset()
        names = {f"torch.npu.{name}" for name in exports}
        return names.union(_NATIVE, *map(self.surface.methods, names))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """All verdicts on one release."""

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

    @property
    def state(self) -> str:
        """`passes`, unless there is something to say against it, or nothing to check."""
        if self.broken:
            return f"{len(self.broken)} broken"
        return "passes" if self.verdicts else "nothing to check"


def report_on(release: Release, collection: Collection, reference: Find | None) -> Report:
    """Check the uses that concern this release."""
    roots = _ROOTS_OF[release.package]
    wanted = [use for use in collection.uses if root_of(use.name) in roots]
    find = release.surface.find
    return Report(
        package=release.package,
        version=release.origin.version,
        verdicts=check_all(wanted, find, reference),
        traps=check_traps(find) if release.package == "torch_npu" else [],
    )


def table(reports: Sequence[Report]) -> str:
    """Names by releases; below it a line per release, and what is broken."""
    asked = [report for report in reports if report.verdicts]
    names = [name for name, _ in by_name(v.use for report in asked for v in report.verdicts)]
    width = max(map(len, names), default=0)
    lines = (
        [" ".join([" " * width, *(f"{report.version:>13}" for report in asked)])] if names else []
    )
    for name in names:
        cells = []
        for report in asked:
            seen = [v.verdict for v in report.verdicts if v.use.name == name]
            worst = next((v for v in seen if v in BROKEN), seen[0] if seen else "-")
            cells.append(f"{worst:>13}")
        lines.append(" ".join([f"{name:<{width}}", *cells]))
    for report in reports:
        uses = f"{len(report.verdicts)} uses"
        lines += ["", f"{report.package} {report.version}: {uses}, {report.state}"]
        lines += [f"  {line}" for line in report.broken]
    return "\n".join(lines)
