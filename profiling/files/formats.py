"""The profilers' files as data: which columns each kind has, what they mean, where that is from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kernels_npu.evidence import Evidence
from profiling.files.naming import key_of
from profiling.records.quantity import UNITS, Quantity
from profiling.records.table import Column, FileKind

#: What a key measures: the first pattern that is found in it.
_QUANTITIES = (
    (r"_kb(_|$)", Quantity.VOLUME),
    (r"_mb$", Quantity.MEMORY),
    (r"_gbps$", Quantity.BANDWIDTH),
    (r"_pct(_|$)", Quantity.PERCENT),
    (r"(^|_)(start|allocation|release|timestamp)(_time)?_us$", Quantity.TIMESTAMP),
    (r"_us$", Quantity.TIME),
    (r"_(ratio|rate)$", Quantity.RATIO),
    (r"(^|_)cycles$", Quantity.CYCLES),
    (r"_freq$", Quantity.FREQUENCY),
    (r"_(shapes|formats|types)$", Quantity.SHAPE),
)
_PATTERNS = tuple((re.compile(pattern), quantity) for pattern, quantity in _QUANTITIES)

#: Keys whose cells are names, although they may look like numbers: `N/A`, `host`, `4294967295`.
_TEXT_KEYS = frozenset(
    [
        "op_name",
        "op_type",
        "op_state",
        "name",
        "type",
        "core",
        "task_type",
        "accelerator_core",
        "kernel_name",
        "kernel_type",
        "core_type",
        "level",
        "api_name",
        "sub_block_id",
        "hf32_eligible",
        "step_id",
        "device_id",
        "model_id",
        "task_id",
        "stream_id",
        "context_id",
        "index",
        "instr",
        "code",
        "pipe",
        "detail",
        "addr",
        "pid",
        "call_stack",
    ]
)

#: Where names come from that no profiler writes.
_SIMULATED_SOURCE = "profiling.simulated, counters of the simulated NPU"
#: What follows from the constants of a cost model where bytes and instructions are counted.
_MODELLED = frozenset({Quantity.CYCLES, Quantity.RATIO})

#: Figures of a device file that are not measured there.
_EVIDENCE = (
    (re.compile(r"^rated_freq$"), Evidence.VENDOR_REPORTED),
    (re.compile(r"_estimate$"), Evidence.MODELLED),
)


@dataclass(frozen=True, kw_only=True)
class Format:
    """One kind of file.

    Args:
        kind: which.
        source: where the columns are documented.
        columns: lists of header names, one per generation or chip, separated by commas.
        needs: keys without which a file says too little: their absence is reported.
        tells: keys of which any one is in this kind of file only, among those before it.
        renames: keys of this kind that say the same as another one's.
        quantities: where the name alone does not tell.
        evidence: of its figures.
        multiline: whether cells hold line ends.
        simulated: lists like `columns`, of names that only simulated launches have.
    """

    kind: FileKind
    source: str
    columns: tuple[str, ...]
    needs: tuple[str, ...]
    tells: tuple[frozenset[str], ...]
    renames: Mapping[str, str] = field(default_factory=dict)
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    evidence: Evidence = Evidence.NPU_MEASURED
    multiline: bool = False
    simulated: tuple[str, ...] = ()

    @cached_property
    def known(self) -> frozenset[str]:
        """The keys of all its columns."""
        return self._keys(self.columns) | self._keys(self.simulated)

    def _keys(self, lists: tuple[str, ...]) -> frozenset[str]:
        names = (name for line in lists for name in line.split(","))
        return frozenset(self.key(name) for name in names if name.strip())

    def key(self, name: str) -> str:
        """The key of a column in this kind of file."""
        key = key_of(name)
        return self.renames.get(key, key)

    def column(self, name: str, measured: Evidence = Evidence.NPU_MEASURED) -> Column:
        """What is known about the column `name` of a file whose measurements are `measured`."""
        key = self.key(name)
        known = key in self.known
        quantity = self.quantities.get(key) or quantity_of(key, known=known)
        evidence = next((e for p, e in _EVIDENCE if p.search(key)), self.evidence)
        if evidence is Evidence.NPU_MEASURED:
            by_model = measured is Evidence.SIMULATED and quantity in _MODELLED
            evidence = Evidence.MODELLED if by_model else measured
        return Column(
            name=name,
            key=key,
            quantity=quantity,
            unit=UNITS.get(quantity, ""),
            known=known,
            source=self._source(key) if known else "",
            evidence=evidence,
        )

    def _source(self, key: str) -> str:
        return _SIMULATED_SOURCE if key in self._keys(self.simulated) else self.source

    def fits(self, keys: frozenset[str]) -> bool:
        """Whether a header with `keys` can be one of this kind."""
        return any(told <= keys for told in self.tells)


def quantity_of(key: str, *, known: bool) -> Quantity:
    """What a key measures, by its suffix; unknown columns without one hold anything."""
    if key in _TEXT_KEYS:
        return Quantity.TEXT
    for pattern, quantity in _PATTERNS:
        if pattern.search(key):
            return quantity
    return Quantity.COUNT if known else Quantity.UNKNOWN
