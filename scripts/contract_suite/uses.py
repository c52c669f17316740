"""One use of another package's name, and what our source declares about what it holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

#: Packages whose contracts are checked.
ROOTS = ("torch.npu", "torch_npu", "tilelang", "vllm", "vllm_ascend")
#: The type of a parameter that holds torch.npu or torch.cuda, see `graphs.device_types`.
NAMESPACE = "TorchNamespace"
#: Declared types of `graphs.device_types`, and what they stand for on an NPU.
DECLARED = {
    NAMESPACE: "torch.npu",
    "Graph": "torch.npu.NPUGraph",
    "Event": "torch.npu.Event",
}


@dataclass(frozen=True, kw_only=True)
class Use:
    """One use of a name.

    positional, keywords: of the call; `open`: it unpacks further arguments.
    defaults: what our own parameters that are handed on default to, by position or keyword.
    optional: the code asks whether the name exists.
    """

    name: str
    file: str
    line: int
    call: bool = False
    positional: int = 0
    keywords: tuple[str, ...] = ()
    open: bool = False
    defaults: tuple[tuple[int | str, str], ...] = ()
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class Handover:
    """A namespace leaves the function that knows it: to `function`, or out of sight for None."""

    file: str
    line: int
    function: str | None
    argument: int | str


@dataclass(kw_only=True)
class Collection:
    """What was found in some files. `functions`: parameters by name, and which are declared."""

    uses: list[Use] = field(default_factory=list)
    handovers: list[Handover] = field(default_factory=list)
    functions: dict[str, list[list[tuple[str, bool]]]] = field(default_factory=dict)

    def undeclared(self) -> list[str]:
        """Places where a namespace gets out of sight, so that its uses are not in `uses`."""
        problems = []
        for handover in self.handovers:
            if not self._is_declared(handover):
                to = f"handed to {handover.function}" if handover.function else "kept or returned"
                problems.append(
                    f"{handover.file}:{handover.line}: torch.npu, or an attribute of torch that "
                    f"may be it, is {to} undeclared: annotate with {NAMESPACE}, or what it is"
                )
        return problems

    def _is_declared(self, handover: Handover) -> bool:
        candidates = self.functions.get(handover.function or "", [])
        for parameters in candidates:
            if isinstance(handover.argument, int):
                known = parameters[handover.argument : handover.argument + 1]
            else:
                known = [(n, declared) for n, declared in parameters if n == handover.argument]
            if not (known and known[0][1]):
                return False
        return bool(candidates)


def root_of(name: str) -> str | None:
    """The package of `ROOTS` that `name` belongs to."""
    return next((root for root in ROOTS if name == root or name.startswith(root + ".")), None)


def by_name(uses: Iterable[Use]) -> Iterator[tuple[str, list[Use]]]:
    """Uses grouped by name, in alphabetical order."""
    found = list(uses)
    for name in sorted({use.name for use in found}):
        yield name, [use for use in found if use.name == name]
