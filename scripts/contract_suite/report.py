"""Verdicts on one release, and the table of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ascend_infer.vllm_plugin.settings import OPS
from contract_suite import host_facts, host_text, language
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
    """All verdicts on one release; definitions, facts: of a host that the plugin hooks into."""

    package: str
    version: str
    verdicts: list[Verdict]
    traps: list[str]
    definitions: list[host_text.Definition]
    facts: list[host_facts.Fact]

    @property
    def drifted(self) -> list[str]:
        """One line for each text that is not a pinned one and each fact that does not hold."""
        texts = [f"{d.what}: {d.state}" for d in self.definitions if d.state != host_text.SAME]
        return texts + [f"not so: {f.what}: {f.found}" for f in self.facts if f.found]

    @property
    def broken(self) -> list[str]:
        """One line per broken contract, with the line of ours that needs it."""
        uses = [
            f"{v.use.file}:{v.use.line}: {v.use.name}: {v.detail}"
            for v in self.verdicts
            if v.verdict in BROKEN
        ]
        return uses + self.traps + self.drifted

    @property
    def state(self) -> str:
        """`passes`, unless there is something to say against it, or nothing to check."""
        if self.broken:
            return f"{len(self.broken)} broken"
        checked = self.verdicts or self.definitions or self.facts
        return "passes" if checked else "nothing to check"


def report_on(
    release: Release,
    collection: Collection,
    reference: Find | None,
    known: Mapping[str, Package] | None = None,
) -> Report:
    """Check what concerns this release; known: see `host_text.compare`."""
    roots = _ROOTS_OF[release.package]
    wanted = [use for use in collection.uses if root_of(use.name) in roots]
    package, version = release.surface.package, release.origin.version
    is_host = release.package == host_text.PACKAGE
    return Report(
        package=release.package,
        version=version,
        verdicts=check_all(wanted, release.surface.find, reference),
        traps=check_traps(release.surface.find) if release.package == "torch_npu" else [],
        definitions=host_text.compare(package, version, known) if is_host else [],
        facts=host_facts.facts(package, release.package),
    )


def table(reports: Sequence[Report]) -> str:
    """Names by releases; below it what hosts are, a line per release, and what is broken."""
    asked = [report for report in reports if report.verdicts]
    rows: dict[str, list[str]] = {
        name: [_worst(report, name) for report in asked]
        for name, _ in by_name(v.use for report in asked for v in report.verdicts)
    }
    lines = _columns([report.version for report in asked], rows)
    hosts = [report for report in reports if report.definitions]
    lines += _columns([report.version for report in hosts], _host_rows(hosts))
    for report in reports:
        uses = f"{len(report.verdicts)} uses"
        lines += ["", f"{report.package} {report.version}: {uses}, {report.state}"]
        lines += [f"  {line}" for line in report.broken]
    return "\n".join(lines)


def diffs(reports: Sequence[Report]) -> str:
    """How the texts of hosts differ from those of the nearest pinned releases."""
    return "\n".join(
        "\n".join([f"\n{report.package} {report.version}", *found.diff])
        for report in reports
        for found in report.definitions
        if found.diff
    )


def _worst(report: Report, name: str) -> str:
    seen = [v.verdict for v in report.verdicts if v.use.name == name]
    return next((v for v in seen if v in BROKEN), seen[0] if seen else "-")


def _host_rows(hosts: Sequence[Report]) -> dict[str, list[str]]:
    """What each operator depends on, and each fact, by release."""
    operators = [host_text.by_operator(report.definitions) for report in hosts]
    rows = {f"text of {op}": [of[op] for of in operators] for op in OPS if operators}
    for i, fact in enumerate(hosts[0].facts if hosts else ()):
        rows[fact.what] = ["NOT SO" if report.facts[i].found else "holds" for report in hosts]
    return rows


def _columns(versions: Sequence[str], rows: Mapping[str, Sequence[str]]) -> list[str]:
    if not rows:
        return []
    width, cell = max(map(len, rows)), max(13, *map(len, versions))
    return [
        " ".join([f"{name:<{width}}", *(f"{text:>{cell}}" for text in texts)])
        for name, texts in {"": versions, **rows}.items()
    ]
