"""`--target`: which code generator compiles, and for which chip."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernels_npu.errors import UsageError

CODE_GENERATORS = ("ascendc", "pto")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A choice made by the user.

    code_generator: what `target="auto"` means to the compiler. soc: name in `sim.soc.SOCS`, or None
    for the default chip.
    """

    code_generator: str = "ascendc"
    soc: str | None = None


def parse_target(text: str) -> Target:
    """`pto`, `A5`, `pto,A5`, `Ascend910B3`: at most one code generator and at most one chip.

    Raises:
        UsageError: AI-CLI-001 for two of a kind, AI-DEV-010 for a name that no chip answers to.
    """
    from kernels_npu.sim.soc import get_soc

    generators, chips = [], []
    for part in filter(None, (word.strip() for word in text.split(","))):
        if part.lower() in CODE_GENERATORS:
            generators.append(part.lower())
        else:
            chips.append(get_soc(part).name)
    if len(generators) > 1 or len(chips) > 1 or not (generators or chips):
        raise UsageError(
            "AI-CLI-001",
            f"--target {text} names {len(generators)} code generators and {len(chips)} chips",
            rule="a target is a code generator (ascendc, pto), a platform (A2, A3, A5) or a SoC "
            "version, or one of each separated by a comma",
            fix="for example --target pto,A5",
        )
    return Target(
        code_generator=generators[0] if generators else "ascendc", soc=chips[0] if chips else None
    )


@contextlib.contextmanager
def compiling_for(target: Target) -> Iterator[None]:
    """What `target="auto"` means in the body."""
    # The package offers the decorator `jit` under the module's own name.
    compiler: Any = importlib.import_module("kernels_npu.sim.frontend.jit")
    before, compiler.auto_target = compiler.auto_target, target.code_generator
    try:
        yield
    finally:
        compiler.auto_target = before
