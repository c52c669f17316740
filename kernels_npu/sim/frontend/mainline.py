"""Kernel text of another dialect that only comes to light while it runs: refused.

A script that is another dialect's altogether is refused by `kernels_npu.dialect.guard` before it
runs. Here are the modules that it imports, and files with kernels for several dialects. The message
says what to write in the adapter dialect instead, for the file's other constructs as well.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

from kernels_npu.dialect import guard
from kernels_npu.dialect.translations import (
    KEYWORDS,
    LABELS,
    NAMES,
    NPUIR_OPERATION,
    NPUIR_PREFIX,
    Foreign,
)
from kernels_npu.errors import SourceLocation
from kernels_npu.sim.frontend.affine import show
from kernels_npu.sim.frontend.diagnostics import DialectAttributeError, fail, here


def foreign(name: str) -> Foreign | None:
    """The row of a name in `T` that another dialect has."""
    return NPUIR_OPERATION if name.startswith(NPUIR_PREFIX) else NAMES.get(name)


def _advice(fix: str, where: SourceLocation | None) -> str:
    """`fix`, and what to write for all constructs of a file that is another dialect's."""
    verdict = guard.judge_file(where.file) if where is not None else None
    if verdict is None or not verdict.refused or len(verdict.foreign) == 1:
        return fix
    return "\n".join(
        (f"{fix}; the file is written for {verdict.label}, in it:", *guard.translation(verdict))
    )


class MainlineModule(ModuleType):
    """Stands for `tilelang.ascend.language`: a script of mainline's backend is told what it is."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        row, where = foreign(name), here()
        fix = "write `import tilelang.language as T` and the adapter dialect"
        raise DialectAttributeError(
            guard.CODE,
            f"{self.__name__}.{name} belongs to mainline TileLang's Ascend backend",
            where=where,
            rule=guard.RULE,
            fix=_advice(f"{fix}: {row.adapter}" if row else fix, where),
        )


def refuse_name(module: str, name: str, row: Foreign) -> NoReturn:
    """Refuse `T.<name>` of another dialect."""
    where = here()
    raise DialectAttributeError(
        guard.CODE,
        f"{module}.{name} belongs to {LABELS[row.dialects[0]]}",
        where=where,
        rule=guard.RULE,
        fix=_advice(f"write {row.adapter}", where),
    )


def refuse_keyword(call: str, keyword: str) -> NoReturn:
    """Refuse a keyword argument that only another dialect's operation has."""
    row = KEYWORDS[keyword]
    _refuse(
        f"T.{call}(..., {keyword}=) belongs to {LABELS[row.dialects[0]]}", f"write {row.adapter}"
    )


def _refuse(what: str, fix: str) -> NoReturn:
    fail(guard.CODE, what, rule=guard.RULE, fix=_advice(fix, here()))


def refuse_kernel(blocks: tuple[Any, ...], threads: Any, is_cpu: bool) -> NoReturn:
    """Refuse a `T.Kernel` without `is_npu=True`, naming which mainline form it is."""
    shown = ", ".join(show(b) for b in blocks)
    if is_cpu:
        kind = "mainline's CPU backend"
    elif threads is not None or len(blocks) > 1:
        kind = "a GPU kernel of mainline TileLang"
    else:
        kind = "mainline TileLang's Ascend backend or a GPU kernel"
    extra = "" if threads is None else f", threads={threads!r}"
    _refuse(
        f"T.Kernel({shown}{extra}) has no is_npu=True: this is {kind}",
        "write `with T.Kernel(total_blocks, is_npu=True) as (cid, vid):` "
        "and split cid with // and %",
    )


def refuse_swizzle(arguments: object) -> NoReturn:
    """Refuse `T.use_swizzle(panel_size)`, a CUDA rasterisation hint."""
    _refuse(
        f"T.use_swizzle({arguments}) is mainline's rasterisation hint",
        "write cid = T.use_swizzle(cid, M, N, K, block_M, block_N, off=...), or leave it out",
    )
