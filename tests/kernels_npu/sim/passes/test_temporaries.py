"""Hidden scratch buffers: sizes as the real compiler reserves them for a [16, 96] tile."""

from __future__ import annotations

import pytest

from kernels_npu.errors import KernelSourceError
from kernels_npu.sim import ir
from tests.kernels_npu.sim.passes.kernel_builder import Kernel, addresses, load, region

ONE = ir.Const(1.0, "float32")


class Tiles:
    """a, b: [16, 96]; rows: [16]; cols: [96]."""

    def __init__(self, dtype: str) -> None:
        self.k = Kernel()
        self.a, self.b = (self.k.alloc(name, (16, 96), dtype) for name in "ab")
        self.rows, self.cols = (
            self.k.alloc("rows", (16,), dtype),
            self.k.alloc("cols", (96,), dtype),
        )

    def emit(self, case: str) -> None:
        op = self.k.op
        if case in ("sum rows", "sum rows, kept"):
            op("reduce_sum", self.a, self.rows, dim=-1, clear=case == "sum rows")
        elif case == "sum cols":
            op("reduce_sum", self.a, self.cols, dim=0, clear=True)
        elif case == "max cols":
            op("reduce_max", self.a, self.cols, dim=0, clear=True)
        elif case == "broadcast":
            op("broadcast", self.a, self.cols)
        elif case in ("pow", "select"):
            op(case, self.b, self.a, self.a)
        elif case == "round":
            op("round", self.b, self.a, count=10)
        elif case == "clamp":
            op("clamp", self.b, self.a, ONE, ONE, count=64)
        elif case == "max cols, clamp":
            self.emit("max cols")
            self.emit("clamp")
        else:
            op(case, self.b, self.a)


# case: (ascendc half, ascendc float, pto half, pto float); 0 = no scratch at all
COMPILER = {
    "sum rows": (3072, 6144, 512, 4096),
    "sum rows, kept": (3072, 6144, 512, 4096),
    "sum cols": (3072, 6144, 1024, 1024),
    "max cols": (3072, 6144, 32, 32),
    "broadcast": (768, 1536, 32, 32),
    "pow": (6144, 12288, 32, 32),
    "sigmoid": (3072, 6144, 32, 32),
    "select": (0, 0, 3072, 6144),
    "round": (3072, 6144, 32, 32),
    "clamp": (3072, 6144, 3072, 6144),
    "max cols, clamp": (3072, 6144, 3072, 6144),
    "exp": (0, 0, 0, 0),
}


@pytest.mark.parametrize("case", COMPILER)
@pytest.mark.parametrize(
    ("column", "target", "dtype"),
    [
        (0, "ascendc", "float16"),
        (1, "ascendc", "float32"),
        (2, "pto", "float16"),
        (3, "pto", "float32"),
    ],
)
def test_bytes_of_tmp_ub(case: str, column: int, target: str, dtype: str) -> None:
    tiles = Tiles(dtype)
    tiles.emit(case)
    lowered = tiles.k.lower(target)
    hidden = {b.name: size for b, size in lowered.sizes.items() if b.name.startswith("tmp_ub")}
    assert hidden.get("tmp_ub", 0) == COMPILER[case][column]


@pytest.mark.parametrize(("dtype", "size"), [("float16", 32), ("float32", 64)])
def test_pto_keeps_the_old_output_of_a_merging_reduce(dtype: str, size: int) -> None:
    tiles = Tiles(dtype)
    tiles.emit("sum rows, kept")
    sizes = {b.name: size for b, size in tiles.k.lower("pto").sizes.items()}
    assert sizes["tmp_ub_reduce_out"] == size
    assert "tmp_ub_reduce_out" not in {b.name for b in tiles.k.lower("ascendc").sizes}


def test_sin_and_cos_need_twice_the_source() -> None:
    for op in ("sin", "cos"):
        tiles = Tiles("float16")
        tiles.emit(op)
        (hidden,) = [s for b, s in tiles.k.lower().sizes.items() if b.name == "tmp_ub"]
        assert hidden == 6144


def test_one_buffer_serves_all_operations_and_is_as_large_as_the_largest_need() -> None:
    tiles = Tiles("float32")
    for case in ("broadcast", "sum rows", "broadcast"):
        tiles.emit(case)
    lowered = tiles.k.lower()
    assert {b.name: s for b, s in lowered.sizes.items() if b.name.startswith("tmp")} == {
        "tmp_ub": 6144
    }
    # touched in the order b?, a, cols, scratch: it lies where the first operation touches it
    assert addresses(lowered) == {"a": 0, "cols": 6144, "tmp_ub": 6528, "rows": 6528 + 6144}


def test_regions_count_their_own_elements() -> None:
    k = Kernel()
    wide, out = k.alloc("wide", (16, 128)), k.alloc("out", (8,))
    k.op("reduce_max", region(wide, (0, 8), (0, 128)), out, dim=-1, clear=True)
    (hidden,) = [size for b, size in k.lower().sizes.items() if b.name == "tmp_ub"]
    assert hidden == 8 * 128 * 4


def test_sort_takes_typed_scratch_and_enlarges_the_shared_one_for_others() -> None:
    k = Kernel()
    source, out = k.alloc("source", (64,)), k.alloc("out", (128,))
    k.op("sort", out, source, actual_num=64)
    sizes = {b.name: size for b, size in k.lower().sizes.items()}
    assert sizes == {"out": 512, "source": 256, "tmp_ub_1": 64 * 8 * 4}
    assert k.lower("pto").used_bytes["UB"] == 256 + 512 + 64 * 4 * 4
    k.op("sigmoid", source, source)  # alone it would need 256 bytes
    sizes = {b.name: size for b, size in k.lower().sizes.items()}
    assert sizes["tmp_ub"] == 64 * 4 * 8


def test_topk_of_the_compiler() -> None:
    """examples/topk_selector: 4096 scores, 65536 bytes of scratch."""
    k = Kernel()
    source, out = k.alloc("score", (4096,)), k.alloc("out", (4096,))
    k.op("topk", out, source, K=2048, actual_num=4096)
    sizes = {b.name: size for b, size in k.lower().sizes.items()}
    assert sizes == {"score": 16384, "out": 16384, "tmp_ub_1": 65536}


def test_run_time_extents_cannot_be_sized() -> None:
    k = Kernel()
    wide, out = k.alloc("wide", (16, 128)), k.alloc("out", (16,))
    n = ir.Var("n")
    rows = ir.Region(wide, (ir.Const(0, "int32"),) * 2, (n, ir.Const(128, "int32")))
    stmt = k.op("reduce_max", rows, out, dim=-1, clear=True)
    with pytest.raises(KernelSourceError) as caught:
        k.lower()
    assert (caught.value.code, caught.value.where) == ("AI-MEM-011", stmt.loc)


# --------------------------------------------------------------------------- T.Parallel


def parallel_kernel() -> tuple[Kernel, ir.Buffer, ir.Buffer, ir.Buffer, ir.Buffer, ir.Var, ir.Var]:
    k = Kernel()
    u, w, s = k.alloc("u", (16, 64)), k.alloc("w", (16, 64)), k.alloc("s", (16,))
    out = k.gm("out", (64, 64))
    return k, u, w, s, out, ir.Var("i"), ir.Var("j")


def hidden_of(k: Kernel) -> list[int]:
    named = ("u", "w", "s", "t")
    return sorted(size for b, size in k.lower().sizes.items() if b.name not in named)


def test_a_single_operation_needs_no_scratch() -> None:
    k, u, w, _, _, i, j = parallel_kernel()
    k.parallel(w, (16, 64), load(u, i, j) * load(w, i, j), (i, j))
    assert hidden_of(k) == []


def test_each_nested_operation_needs_a_tile() -> None:
    k, u, w, _, _, i, j = parallel_kernel()
    product = load(u, i, j) * load(w, i, j)
    k.parallel(w, (16, 64), product + product, (i, j))
    assert hidden_of(k) == [4096, 4096]


def test_a_row_operand_next_to_a_tile_makes_the_compiler_loop_over_rows() -> None:
    """The instructions then work on one row, and so do the intermediates."""
    k, u, w, s, _, i, j = parallel_kernel()
    k.parallel(w, (16, 64), (load(u, i, j) + load(w, i, j)) * load(u, i, j) + load(s, i), (i, j))
    assert hidden_of(k) == [256, 256]


def test_a_row_operand_alone_is_broadcast() -> None:
    k, _, w, s, _, i, j = parallel_kernel()
    k.parallel(w, (16, 64), load(s, i), (i, j))
    assert hidden_of(k) == [2 * 16 * 64, 16 * 64 * 4]  # byte workspace and tile


def test_a_global_destination_is_staged_in_ub() -> None:
    k, u, _, _, out, i, j = parallel_kernel()
    k.parallel(out, (16, 64), load(u, i, j) * load(u, i, j), (i, j))
    assert hidden_of(k) == [4096]


def test_a_constant_on_the_left_matches_no_pattern() -> None:
    k, u, w, _, _, i, j = parallel_kernel()
    k.parallel(w, (16, 64), 2.0 * (load(u, i, j) * load(u, i, j)), (i, j))
    assert hidden_of(k) == []


def test_three_dimensions_are_refused() -> None:
    k = Kernel()
    t = k.alloc("t", (4, 4, 4))
    names = tuple(ir.Var(n) for n in "abc")
    stmt = k.parallel(t, (4, 4, 4), load(t, *names), names)
    with pytest.raises(KernelSourceError) as caught:
        k.lower()
    assert (caught.value.code, caught.value.where) == ("AI-SRC-045", stmt.loc)


# --------------------------------------------------------------------------- annotations


def test_parallel_makes_the_compiler_forget_addresses_and_layouts() -> None:
    k, u, w, _, _, i, j = parallel_kernel()
    k.addresses[u] = 8192
    k.copy(k.gm("in", (16, 64)), k.alloc("t", (20, 40), "float16", "l1"))
    stmt = k.parallel(w, (16, 64), load(u, i, j), (i, j))
    lowered = k.lower()
    (note,) = lowered.notes
    assert (note.code, note.loc) == ("AI-MEM-013", stmt.loc)
    assert "address of 'u'" in note.message
    assert addresses(lowered) == {"t": 0, "u": 0, "w": 4096}
    assert lowered.used_bytes == {"UB": 8192, "L1": 1600}, "L1 without its zN layout"
    assert not lowered.func.addresses and not lowered.func.layouts


# shape: (one row, the whole tile) in bytes; rows of the scratch are padded to 32 bytes
XOR = {((5, 40), "int16"): (480, 480), ((16, 96), "int32"): (6144, 6144), ((40,), "uint16"): (96,)}


@pytest.mark.parametrize(("shape", "dtype"), XOR)
def test_pto_xor_reserves_the_whole_source_also_for_a_row(
    shape: tuple[int, ...], dtype: str
) -> None:
    for size, whole in zip(XOR[shape, dtype], (True, False)):
        kernel = Kernel()
        tiles = [kernel.alloc(name, shape, dtype) for name in "ab"]
        row = [region(tile, *((0, 1), (0, shape[-1]))[-len(shape) :]) for tile in tiles]
        b, a = tiles if whole else row
        kernel.op("bitwise_xor", b, a, a)
        sizes = {b.name: size for b, size in kernel.lower("pto").sizes.items()}
        assert sizes["tmp_ub_1"] == size
