"""Addresses and bytes against what the real compiler printed for these kernels, or hand counts."""

from __future__ import annotations

import itertools

import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from tests.kernels_npu.sim.passes.kernel_builder import Kernel, addresses, codes, load, region

# --------------------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("shape", "dtype", "scope", "expected"),
    [
        ((16, 3), "float32", "ub", 16 * 32),  # rows of 12 bytes take 32
        ((5,), "float32", "ub", 32),
        ((16, 1), "float32", "ub", 64),  # one column is laid out as one row
        ((4, 4, 3), "float32", "ub", 16 * 32),
        ((20, 40), "float16", "l0a", 1600),  # no padding of rows outside UB
        ((20, 40), "float32", "l0c", 3200),
        ((7, 5), "float16", "l1", 224),  # L1: up to the highest index of the zN layout
        ((20, 40), "float16", "l1", 2656),
        ((2, 20, 40), "float16", "l1", 5376),
        ((20, 40), "int8", "l1", 1664),
        ((2, 17, 33), "float16", "l1", 5152),
        ((3, 200), "float32", "l1", 12000),
        ((128, 64), "float16", "l1", 16384),
        ((64, 128), "bfloat16", "ub", 16384),
        ((2, 3), "int8", "ub", 64),
        ((3, 40), "uint8", "ub", 3 * 64),
    ],
)
def test_reserved_bytes(shape: tuple[int, ...], dtype: str, scope: str, expected: int) -> None:
    k = Kernel()
    buffer = k.alloc("b", shape, dtype, scope)
    a = k.gm("A", shape, dtype)
    k.copy(a, buffer)
    lowered = k.lower()
    assert lowered.sizes[buffer] == expected
    assert list(lowered.used_bytes.values()) == [expected]


@pytest.mark.parametrize("extent", [0, ir.Var("n")])
def test_extents_must_be_positive_constants(extent: ir.Expr | int) -> None:
    k = Kernel()
    buffer = k.alloc("b", (4, extent))
    k.op("fill", buffer, ir.Const(0.0, "float32"))
    with pytest.raises(KernelSourceError) as caught:
        k.lower()
    assert caught.value.code == "AI-MEM-012"
    assert caught.value.where == buffer.loc


# --------------------------------------------------------------------------- planning off


def compiler_example() -> Kernel:
    """The kernel whose addresses the real compiler gave: a 0, b 512, c 544, d 608, e 1120."""
    k = Kernel()
    a_gm, b_gm = k.gm("A", (64, 64)), k.gm("B", (64, 64))
    k.alloc("unused", (64,))
    a, b = k.alloc("a", (16, 3)), k.alloc("b", (5,))
    c, d = k.alloc("c", (16, 1)), k.alloc("d", (4, 4, 3))
    tile = k.alloc("l1", (16, 3), scope="l1")
    e = k.alloc("e", (8, 8))
    zero = ir.Const(0.0, "float32")
    with k.scope("vector"):
        k.copy(region(a_gm, (0, 16), (0, 3)), a)
        k.op("exp", a, a)
        for buffer in (b, c, d):
            k.op("fill", buffer, zero)
        with k.loop("i", 3):
            k.op("fill", e, zero)
        k.copy(a, region(b_gm, (0, 16), (0, 3)))
    with k.scope("cube"):
        k.copy(region(a_gm, (0, 16), (0, 3)), tile)
    return k


@pytest.mark.parametrize("target", ["ascendc", "pto"])
@pytest.mark.parametrize("planning", [False, True])
def test_addresses_of_the_compiler(target: str, planning: bool) -> None:
    lowered = compiler_example().lower(target, memory_planning=planning)
    assert addresses(lowered) == {"a": 0, "b": 512, "c": 544, "d": 608, "e": 1120, "l1": 0}
    assert lowered.used_bytes == {"UB": 1376, "L1": 512}


def test_buffers_are_laid_out_by_first_touch_not_declaration() -> None:
    k = Kernel()
    first, second = k.alloc("first", (8,)), k.alloc("second", (16,))
    zero = ir.Const(0.0, "float32")
    k.op("fill", second, zero)
    k.op("fill", first, zero)
    assert addresses(k.lower()) == {"second": 0, "first": 64}


def test_buffers_of_a_loop_follow_those_that_the_loop_shares() -> None:
    k = Kernel()
    inner, shared = k.alloc("inner", (8,)), k.alloc("shared", (8,))
    zero = ir.Const(0.0, "float32")
    with k.loop("i", 4):
        k.op("fill", inner, zero)
        k.op("fill", shared, zero)
    k.op("exp", shared, shared)
    assert addresses(k.lower()) == {"shared": 0, "inner": 32}


def test_unit_loops_vanish_after_buffers_have_found_their_loops() -> None:
    """A unit loop's buffer keeps its place beside statements; behind a binding it comes last."""
    zero = ir.Const(0.0, "float32")
    k = Kernel()
    inner, outer = k.alloc("inner", (8,)), k.alloc("outer", (8,))
    with k.loop("u", 1):
        k.op("fill", inner, zero)
        k.op("fill", outer, zero)
    k.op("exp", outer, outer)
    assert addresses(k.lower()) == {"inner": 0, "outer": 32}
    k = Kernel()
    inner, outer = k.alloc("inner", (8,)), k.alloc("outer", (8,))
    table = k.gm("table", (8,), "int32")
    k.let("page", load(table, 0))
    with k.loop("u", 1):
        k.op("fill", inner, zero)
        k.op("fill", outer, zero)
    k.op("exp", outer, outer)
    assert addresses(k.lower()) == {"outer": 0, "inner": 32}


def test_annotated_buffers_first_then_the_rest_behind_the_highest() -> None:
    k = Kernel()
    free = k.alloc("free", (8,))
    low = k.alloc("low", (64,), address=0)
    high = k.alloc("high", (8,), address=1024)
    zero = ir.Const(0.0, "float32")
    for buffer in (free, low, high):
        k.op("fill", buffer, zero)
    lowered = k.lower()
    assert addresses(lowered) == {"free": 1056, "low": 0, "high": 1024}
    assert lowered.used_bytes == {"UB": 1088}


def test_overflow_names_bytes_buffers_and_the_declaration() -> None:
    k = Kernel()
    small = k.alloc("small", (1024,))
    big = k.alloc("big", (48 * 1024,))
    zero = ir.Const(0.0, "float32")
    k.op("fill", small, zero)
    k.op("fill", big, zero)
    lowered = k.lower()
    (note,) = lowered.errors
    assert note.code == "AI-MEM-001"
    assert note.loc == big.loc
    for part in ("200704", "196352", "4352", "small 4096 at 0", "big 196608 at 4096"):
        assert part in note.message
    assert not k.lower(soc="A5").errors, "A5 has 248 KiB"


def test_exactly_full_is_no_overflow() -> None:
    k = Kernel()
    buffer = k.alloc("b", (196352 // 4,))
    k.op("fill", buffer, ir.Const(0.0, "float32"))
    lowered = k.lower()
    assert lowered.used_bytes == {"UB": 196352}
    assert not lowered.errors


# --------------------------------------------------------------------------- views


def test_views_and_reinterpretcast_share_bytes() -> None:
    k = Kernel()
    pad = k.alloc("pad", (8,))
    source = k.alloc("source", (4, 16), "float32")
    target = k.alloc("target", (4, 16), "int32")
    view = ir.Buffer("view", "ub", (2, 16), "float32", alias_of=source, alias_offset=128)
    nested = ir.Buffer("nested", "ub", (16,), "float32", alias_of=view, alias_offset=64)
    zero = ir.Const(0.0, "float32")
    k.op("fill", pad, zero)
    k.op("fill", source, zero)
    k.op("fill", view, zero)
    k.op("fill", nested, zero)
    k.op("reinterpretcast", target, source, dtype="int")
    lowered = k.lower()
    placed = addresses(lowered)
    assert placed["source"] == placed["target"] == 32
    assert placed["view"] == 32 + 128
    assert placed["nested"] == 32 + 128 + 64
    # the dead allocation of the destination still counts, as in the compiler
    assert lowered.used_bytes == {"UB": 32 + 256 + 256}


# --------------------------------------------------------------------------- planning on


def chain(sizes: list[int]) -> Kernel:
    """b0 -> b1 -> b2 ...: each buffer dies once the next is written."""
    k = Kernel()
    buffers = [k.alloc(f"b{i}", (size // 4,)) for i, size in enumerate(sizes)]
    source = k.gm("A", (1024,))
    k.copy(source, buffers[0])
    for previous, current in itertools.pairwise(buffers):
        k.op("exp", current, previous)
    return k


def test_new_memory_is_taken_while_it_lasts() -> None:
    lowered = chain([1024, 1024, 1024]).lower(memory_planning=True)
    assert addresses(lowered) == {"b0": 0, "b1": 1024, "b2": 2048}


def test_freed_memory_is_reused_when_the_memory_is_full() -> None:
    lowered = chain([98304, 65536, 65536, 32768]).lower(memory_planning=True)
    # the compiler's own addresses: b2 takes the bytes of b0, b3 what is left of them
    assert addresses(lowered) == {"b0": 0, "b1": 98304, "b2": 0, "b3": 65536}
    assert lowered.used_bytes == {"UB": 163840}


def test_overflow_of_live_buffers_stops() -> None:
    k = chain([131072, 131072])
    with pytest.raises(KernelSourceError) as caught:
        k.lower(memory_planning=True)
    assert caught.value.code == "AI-MEM-002"
    for part in ("b0 131072", "'b1' needs 131072", "262144", "196352"):
        assert part in caught.value.what


def test_a_use_in_a_loop_lives_until_the_loop_ends() -> None:
    k = Kernel()
    kept = k.alloc("kept", (24576,))  # 96 KiB
    other = k.alloc("other", (16384,))  # 64 KiB
    late = k.alloc("late", (16384,))
    zero = ir.Const(0.0, "float32")
    k.op("fill", kept, zero)
    with k.loop("i", 4):
        k.op("exp", other, kept)  # last use of kept, but the loop comes back to it
        k.op("exp", late, other)
    with pytest.raises(KernelSourceError) as caught:
        k.lower(memory_planning=True)
    assert caught.value.code == "AI-MEM-002"
    assert "kept 98304" in caught.value.what


def test_annotated_collision_is_refused_by_planning_only() -> None:
    k = Kernel()
    one = k.alloc("one", (64,), address=0)
    two = k.alloc("two", (64,), address=128)
    zero = ir.Const(0.0, "float32")
    k.op("fill", one, zero)
    k.op("fill", two, zero)
    k.op("add", one, one, two)
    assert addresses(k.lower()) == {"one": 0, "two": 128}
    with pytest.raises(KernelSourceError) as caught:
        k.lower(memory_planning=True)
    assert caught.value.code == "AI-MEM-003"


def test_scalar_reads_keep_a_buffer_alive() -> None:
    k = Kernel()
    index, out = k.alloc("index", (8,), "int32"), k.alloc("out", (8,), "int32")
    k.op("fill", index, ir.Const(1, "int32"))
    value = k.let("v", load(index, 0))
    k.store(out, 0, value)
    assert addresses(k.lower()) == {"index": 0, "out": 32}
    assert codes(k.lower()) == []
