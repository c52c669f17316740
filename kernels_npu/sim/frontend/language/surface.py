"""The modules `T` and `T.tile`, put together from the tables."""

from __future__ import annotations

import difflib
from types import ModuleType
from typing import Any, NoReturn

from kernels_npu.sim.frontend import entry, frames, loops, mainline
from kernels_npu.sim.frontend.diagnostics import DialectAttributeError, here
from kernels_npu.sim.frontend.language import (
    copy,
    cube,
    debug,
    memory,
    reduce,
    row_expand,
    scalars,
    sync,
    tile_rules,
    tile_table,
)
from kernels_npu.sim.frontend.language.operands import checked, make
from kernels_npu.sim.frontend.values import ScalarType


class DialectModule(ModuleType):
    """A module of the dialect: an unknown name is a coded error with a suggestion."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        label = "T" if self.__name__.startswith("tilelang.") else self.__name__
        if self.__name__.endswith("ascend_tile"):
            label = "T.tile"
        if label == "T" and (row := mainline.foreign(name)) is not None:
            mainline.refuse_name(label, name, row)
        close = difflib.get_close_matches(name, vars(self), n=1)
        fix = f"did you mean {label}.{close[0]}?" if close else "check the spelling"
        tile = vars(self).get("tile")
        if tile is not None and name in vars(tile):
            fix = f"write T.tile.{name}"
        raise DialectAttributeError(
            "AI-SRC-008",
            f"{label} has no attribute {name}",
            where=here(),
            rule=f"the simulator's {label} has the names of tilelang-ascend's adapter dialect",
            fix=fix,
        )


def build_tile(name: str = "tilelang.language.ascend_tile") -> ModuleType:
    """A fresh module `T.tile`."""
    module = DialectModule(name, "Tile operations of the adapter dialect.")
    for row in (*tile_table.ROWS, *tile_rules.ROWS, *row_expand.ROWS):
        setattr(module, row.name, make(row, "tile."))
    for function in tile_rules.FUNCTIONS:
        setattr(module, function.__name__, checked(function, "tile."))
    return module


_MEMBERS: tuple[Any, ...] = (
    frames.Kernel,
    frames.Scope,
    frames.If,
    frames.Then,
    frames.Else,
    loops.serial,
    loops.unroll,
    loops.grid,
    loops.Parallel,
    loops.Pipelined,
    loops.Persistent,
    memory.alloc_ub,
    memory.alloc_L1,
    memory.alloc_L0A,
    memory.alloc_L0B,
    memory.alloc_L0C,
    memory.alloc_shared,
    memory.alloc_fragment,
    memory.alloc_var,
    memory.symbolic,
    memory.annotate_address,
    memory.annotate_layout,
    memory.reinterpretcast,
    memory.reshape,
    memory.view,
    copy.copy,
    cube.gemm_v0,
    cube.mma,
    cube.set_deq_scale,
    reduce.reduce_sum,
    reduce.reduce_max,
    reduce.reduce_min,
    sync.set_flag,
    sync.wait_flag,
    sync.pipe_barrier,
    sync.barrier_all,
    sync.set_cross_flag,
    sync.wait_cross_flag,
    sync.sync_all,
    sync.loop_break,
    debug.printf,
    debug.dump_tensor,
    debug.func_attr,
)


def build_language(name: str = "tilelang.language") -> ModuleType:
    """A fresh module `T`, with `T.tile`."""
    module = DialectModule(name, "The language of the adapter dialect.")
    for member in _MEMBERS:
        setattr(module, member.__name__, checked(member))
    for key, function in scalars.FUNCTIONS.items():
        plain = isinstance(function, ScalarType)
        setattr(module, key, function if plain else checked(function))
    for row in tile_table.SHMEM:
        setattr(module, row.name, make(row))
    tile = build_tile(f"{name}.ascend_tile")
    extra: dict[str, Any] = {
        "prim_func": entry.prim_func,
        "macro": entry.macro,
        "Tensor": memory.Tensor,
        "Buffer": memory.Tensor,
        "npu_use_swizzle": module.use_swizzle,
        "tile": tile,
        "ascend_tile": tile,
        "reduce_ascend": reduce,
    }
    for key, value in extra.items():
        setattr(module, key, value)
    return module
