"""Kernels with one mistake each, and correct ones, by the description of what is wrong.

A kernel is the text of a module whose `make()` returns a prim_func with inputs A and B and
output C, so that a mistake is met as its author would meet it.
"""

from __future__ import annotations

from textwrap import dedent, indent

_FRAME = """\
import tilelang
import tilelang.language as T


def make():
{setup}
    @T.prim_func
    def main({params}):
        with T.Kernel({grid}, is_npu=True{threads}) as {ids}:
{body}
    return main
"""

_TENSORS = ", ".join(f'{name}: T.Tensor({{shape}}, "{{dtype}}")' for name in "ABC")


def kernel(
    body: str,
    *,
    params: str = "",
    shape: str = "(64, 128)",
    dtype: str = "float32",
    grid: str = "1",
    threads: str = "",
    ids: str = "(cid, vid)",
    setup: str = "",
) -> str:
    """A module whose kernel has `body` under T.Kernel."""
    return _FRAME.format(
        params=params or _TENSORS.format(shape=shape, dtype=dtype),
        grid=grid,
        threads=threads,
        ids=ids,
        body=indent(dedent(body).strip("\n"), " " * 12),
        setup=indent(dedent(setup).strip("\n"), " " * 4),
    )


def ub(names: str, shape: str = "(64, 128)", dtype: str = "float32") -> str:
    """Allocations in UB."""
    return "".join(f'{name} = T.alloc_ub({shape}, "{dtype}")\n' for name in names.split())


def vector(
    body: str,
    allocs: str = "",
    *,
    load: str = "T.copy(A, a)",
    store: str = "T.copy(c, C)",
    scope: str = "V",
    **options: str,
) -> str:
    """Load A into a, run `body` on the vector cores, store c into C; a barrier between each."""
    steps = [step for step in (load, dedent(body).strip("\n"), store) if step]
    inner = "\nT.barrier_all()\n".join(steps)
    scoped = f'with T.Scope("{scope}"):\n' + indent(inner, "    ")
    return kernel((allocs or ub("a c")) + scoped, **options)


def matmul(
    body: str = "T.gemm_v0(a, b, c, init=True)",
    allocs: str = "",
    *,
    a: str = "(64, 64)",
    b: str = "(64, 64)",
    c: str = "(64, 64)",
    dtypes: tuple[str, str, str] = ("float16", "float16", "float32"),
    memory: str = "L1",
) -> str:
    """C = A @ B on the cube core."""
    params = ", ".join(
        f'{name}: T.Tensor({shape}, "{dtype}")'
        for name, shape, dtype in zip("ABC", (a, b, c), dtypes)
    )
    allocs = allocs or "".join(
        f'{name} = T.alloc_{where}({shape}, "{dtype}")\n'
        for name, where, shape, dtype in zip("abc", (memory, memory, "L0C"), (a, b, c), dtypes)
    )
    steps = ("T.copy(A, a)\nT.copy(B, b)", body, "T.copy(c, C)")
    return kernel(
        allocs + 'with T.Scope("C"):\n' + indent("\nT.barrier_all()\n".join(steps), "    "),
        params=params,
    )


def parallel(body: str, allocs: str = "", **options: str) -> str:
    """A T.Parallel over i, j of a 64 x 128 tile."""
    return vector(f"for i, j in T.Parallel(64, 128):\n    {body}", allocs, **options)


_ADD = "T.tile.add(c, a, a)"
_WIDE = 'a = T.alloc_ub((512, 128), "float32")\n'
_HALF_OUT = ub("a") + ub("c", dtype="float16")
_SMALL = ub("a", "(64, 64)") + ub("c")
_ROW_40 = ub("a", "(1, 40)") + 'm = T.alloc_ub((1, 32), "uint8")\n'
_MASK = ub("a c") + 'm = T.alloc_ub((64, 16), "uint8")\n'
_MIXED = 'A: T.Tensor((64, 128), "float32"), B: T.Tensor((64, 128), "float32"), '
_HALF_C = _MIXED + 'C: T.Tensor((64, 128), "float16")'
_THREE = ub("a b c", "(128, 128)")
_COLUMN = 'A: T.Tensor((64, 128), "float32"), B: T.Tensor((64,), "float32"), '
_COLUMN += 'C: T.Tensor((64, 128), "float32")'
_ROW = 'A: T.Tensor((64, 128), "float32"), B: T.Tensor((1, 128), "float32"), '
_ROW += 'C: T.Tensor((64, 128), "float32")'


def _reduced(out: str, dtype: str = "float32", out_dtype: str = "") -> str:
    result = out_dtype or dtype
    return (
        f'A: T.Tensor((64, 128), "{dtype}"), B: T.Tensor((64, 128), "{dtype}"), '
        f'C: T.Tensor({out}, "{result}")'
    )


def _reduce(call: str, out: str, dtype: str = "float32", out_dtype: str = "") -> str:
    result = out_dtype or dtype
    allocs = ub("a", dtype=dtype) + f'r = T.alloc_ub({out}, "{result}")\n'
    return vector(call, allocs, store="T.copy(r, C)", params=_reduced(out, dtype, out_dtype))


def _slices(dst: str, src: str, other: str = "", op: str = "add") -> str:
    """The operation on slices; all of c is filled, so that every element stored is written."""
    operands = ", ".join(f for f in (dst, src, other) if f)
    return vector(f"T.tile.fill(c, 0.0)\nT.barrier_all()\nT.tile.{op}({operands})")


PROBES: dict[str, str] = {
    "baseline add fp32 64x128": vector(_ADD),
    # ------------------------------------------------------------------ capacity
    "UB overflow: one 512x128 fp32 buffer (256 KiB)": vector(
        "T.tile.add(a, a, a)", _WIDE, store="T.copy(a, C)", shape="(512, 128)"
    ),
    "UB overflow: 4 live buffers of 64 KiB": vector(
        """
        T.tile.add(c, a, b)
        T.tile.sub(d, a, b)
        T.tile.mul(c, c, d)
        T.tile.mul(d, d, a)
        T.tile.add(d, d, b)
        T.tile.add(c, c, d)
        """,
        ub("a b c d", "(128, 128)"),
        load="T.copy(A, a)\nT.copy(B, b)",
        shape="(128, 128)",
    ),
    "UB exactly 192 KiB (3 x 64 KiB; limit in code 196352 B)": vector(
        "T.tile.add(c, a, b)", _THREE, load="T.copy(A, a)\nT.copy(B, b)", shape="(128, 128)"
    ),
    "L1 overflow: 1024x512 fp16 = 1 MiB": matmul(a="(1024, 512)", b="(512, 128)", c="(1024, 128)"),
    "L0C overflow: 256x256 fp32 = 256 KiB": matmul(a="(256, 64)", b="(64, 256)", c="(256, 256)"),
    # ------------------------------------------------------------------ dtypes
    "dtype mismatch: tile.add(fp32, fp32, fp16)": vector(
        "T.tile.add(c, a, h)",
        ub("a c") + ub("h", dtype="float16"),
        load="T.copy(A, a)\nT.tile.fill(h, 1.0)",
    ),
    "dtype mismatch: tile.exp(fp16 dst, fp32 src)": vector(
        "T.tile.exp(c, a)", _HALF_OUT, params=_HALF_C
    ),
    "dtype mismatch: tile.add scalar, dst fp16 src fp32": vector(
        "T.tile.add(c, a, 1.0)", _HALF_OUT, params=_HALF_C
    ),
    "dtype not supported by hardware: tile.exp on int32": vector(
        "T.tile.exp(c, a)", ub("a c", dtype="int32"), dtype="int32"
    ),
    "dtype not supported by hardware: tile.add on bfloat16": vector(
        _ADD, ub("a c", dtype="bfloat16"), dtype="bfloat16"
    ),
    "dtype float64 UB buffer": vector(
        "", ub("a", dtype="float64"), store="T.copy(a, C)", dtype="float64"
    ),
    # ------------------------------------------------------------------ sizes
    "size mismatch: tile.add dst 64x128, src0 64x64": vector(
        _ADD, _SMALL, load="T.copy(A[0:64, 0:64], a)"
    ),
    "size mismatch: tile.add src1 whole Buffer smaller (64x64 vs 64x128)": vector(
        "T.tile.add(c, c, a)", _SMALL, load="T.copy(A[0:64, 0:64], a)\nT.copy(A, c)"
    ),
    "size mismatch: tile.exp dst 64x128, src 64x64": vector(
        "T.tile.exp(c, a)", _SMALL, load="T.copy(A[0:64, 0:64], a)"
    ),
    "copy: whole Buffers of different shape (64x128 GM -> 64x64 UB)": vector(
        "", _SMALL, store="T.copy(a, C[0:64, 0:64])"
    ),
    "copy: region 32x128 -> UB 64x128 (extent mismatch)": vector(
        "", ub("a"), load="T.copy(A[0:32, 0:128], a)", store="T.copy(a, C)"
    ),
    "copy: UB tile larger than the GM tensor (static out of bounds)": vector(
        "",
        ub("a", "(128, 128)"),
        load="T.copy(A[0, 0], a)",
        store="T.copy(a, C[0, 0])",
    ),
    "copy: static GM start index out of bounds A[100,0] of 64 rows": vector(
        "", ub("a"), load="T.copy(A[100, 0], a)", store="T.copy(a, C)"
    ),
    "copy: index rank wrong A[0] of a 2D tensor into a 2D UB": vector(
        "", ub("a"), load="T.copy(A[0], a)", store="T.copy(a, C)"
    ),
    "copy: dtype differs GM fp16 -> UB fp32": vector(
        "",
        ub("a"),
        store="T.copy(a, C)",
        params='A: T.Tensor((64, 128), "float16"), B: T.Tensor((64, 128), "float32"), '
        'C: T.Tensor((64, 128), "float32")',
    ),
    "copy: UB fp32 -> UB fp16 (implicit cast)": vector("T.copy(a, c)", _HALF_OUT, params=_HALF_C),
    "copy: GM -> GM": vector("", ub("a"), load="T.copy(A[0:64, 0:128], C[0:64, 0:128])", store=""),
    "copy: L0C -> L1 / UB -> L0A (illegal path)": kernel(
        """
        a = T.alloc_ub((64, 64), "float16")
        d = T.alloc_L0A((64, 64), "float16")
        with T.Scope("V"):
            T.copy(A, a)
            T.barrier_all()
            T.copy(a, d)
            T.barrier_all()
            T.copy(a, C)
        """,
        shape="(64, 64)",
        dtype="float16",
    ),
    # ------------------------------------------------------------------ alignment
    "alignment: UB rows of 3 floats (12 B)": vector(
        "T.tile.add(a, a, a)", ub("a", "(64, 3)"), store="T.copy(a, C)", shape="(64, 3)"
    ),
    "alignment: UB vector op at an unaligned offset a[1:33]": vector(
        "T.tile.add(c[1:33], a[1:33], a[1:33])", ub("a c", "(64,)"), shape="(64,)"
    ),
    "alignment: tile.compare count not a multiple of 256 B": vector(
        'T.tile.compare(m, a, a, "EQ")', _ROW_40, store="T.copy(a, C)", shape="(1, 40)"
    ),
    "alignment: tile.compare with scalar, 40 floats": vector(
        'T.tile.compare(m, a, 0.0, "EQ")', _ROW_40, store="T.copy(a, C)", shape="(1, 40)"
    ),
    "compare: unknown mode 'XX'": vector(
        'T.tile.compare(m, a, a, "XX")', _MASK, store="T.copy(a, C)"
    ),
    "compare: mask buffer far too small": vector(
        'T.tile.compare(m, a, a, "EQ")',
        ub("a", "(8, 1024)") + 'm = T.alloc_ub((1, 32), "uint8")\n',
        store="T.copy(a, C)",
        shape="(8, 1024)",
    ),
    "cast: unknown rounding mode": vector(
        'T.tile.cast(c, a, "CAST_SOMEHOW", 8192)', _HALF_OUT, params=_HALF_C
    ),
    "cast: count larger than the buffer": vector(
        'T.tile.cast(c, a, "CAST_RINT", 16384)', _HALF_OUT, params=_HALF_C
    ),
    # ------------------------------------------------------------------ reduce
    "reduce: output shape wrong": _reduce("T.reduce_max(a, r, dim=-1)", "(32,)"),
    "reduce: output dtype differs (fp32 -> fp16)": _reduce(
        "T.reduce_max(a, r, dim=-1)", "(64,)", out_dtype="float16"
    ),
    "reduce: dim=2 of a 2D buffer": _reduce("T.reduce_max(a, r, dim=2)", "(64,)"),
    "reduce: int32 input": _reduce("T.reduce_sum(a, r, dim=-1)", "(64,)", "int32"),
    # ------------------------------------------------------------------ cube
    "gemm: K mismatch": matmul(b="(128, 64)"),
    "gemm: N mismatch with C": matmul(b="(64, 128)"),
    "gemm: A fp16, B bf16": matmul(dtypes=("float16", "bfloat16", "float32")),
    "gemm: operands in UB": matmul(memory="ub"),
    "gemm: accumulator fp16": matmul(dtypes=("float16", "float16", "float16")),
    "gemm: M not a multiple of 16 (M=17)": matmul(a="(17, 64)", c="(17, 64)"),
    # ------------------------------------------------------------------ cores and flags
    "vector op inside T.Scope('C')": vector(_ADD, scope="C"),
    "no T.Scope at all (no auto CV combine)": kernel(
        ub("a c") + "T.copy(A, a)\nT.barrier_all()\n" + _ADD + "\nT.barrier_all()\nT.copy(c, C)"
    ),
    "no barrier/flag between copy, add, copy (missing sync)": kernel(
        ub("a c") + 'with T.Scope("V"):\n    T.copy(A, a)\n    ' + _ADD + "\n    T.copy(c, C)"
    ),
    "wait_flag without set_flag": vector('T.wait_flag("mte2", "v", 0)\n' + _ADD),
    "set_flag event id 99 / unknown pipe": vector(
        'T.set_flag("mte2", "v", 99)\nT.wait_flag("mte2", "v", 99)\n'
        'T.set_flag("mte9", "v", 0)\nT.wait_flag("mte9", "v", 0)\n' + _ADD
    ),
    "T.Kernel with two block dims": vector(_ADD, grid="2, 3", ids="(bx, by)"),
    "T.Kernel threads=4": vector(_ADD, threads=", threads=4"),
    # ------------------------------------------------------------------ names and run-time values
    "undefined name in the kernel body": vector("T.tile.add(c, a, nope)"),
    "unknown tile op T.tile.foo": vector("T.tile.foo(c, a)"),
    "dynamic UB shape (T.symbolic)": vector(
        _ADD, ub("a c", "(n, 128)"), shape="(n, 128)", setup='n = T.symbolic("n")'
    ),
    "dynamic slice in a vector op a[0:n, :]": vector(
        "T.tile.add(c[0:n, :], a[0:n, :], a[0:n, :])",
        load="T.copy(A[0:64, 0:128], a)",
        store="T.copy(c, C[0:64, 0:128])",
        shape="(n, 128)",
        setup='n = T.symbolic("n")',
    ),
    "two UB buffers with one Python name (re-bound in a loop)": vector(
        """
        for k in range(2):
            d = T.alloc_ub((64, 64), "float32")
            T.copy(A[0:64, 0:64], d)
            T.barrier_all()
            T.tile.add(d, d, d)
            T.barrier_all()
            T.copy(d, C[0:64, k * 64])
            T.barrier_all()
        """,
        "",
        load="T.copy(A, a)",
        store="",
    ),
    "T.Parallel 3D": vector(
        "for i, j, k in T.Parallel(4, 4, 16):\n    a[i, j, k] = a[i, j, k] + 1.0",
        ub("a", "(4, 4, 16)"),
        store="T.copy(a, C)",
        shape="(4, 4, 16)",
    ),
    "T.Parallel with an op that has no vector form (T.sin)": parallel("c[i, j] = T.tan(a[i, j])"),
    "scalar UB element access a[i, j] = a[i, j] + 1 in T.serial": vector(
        """
        for i in T.serial(64):
            for j in T.serial(128):
                a[i, j] = a[i, j] + 1
        """,
        ub("a"),
        store="T.copy(a, C)",
    ),
    "scalar index out of bounds a[200, 0] of 64 rows": vector(
        "a[200, 0] = 1.0", ub("a"), store="T.copy(a, C)"
    ),
    "GM element store A[i, j] = 1.0 directly": vector(
        """
        for i in T.serial(64):
            for j in T.serial(128):
                C[i, j] = 1.0
        """,
        "\n",
        load="",
        store="",
    ),
    "while / return / python if on a tir value": vector(
        """
        if cid > 0:
            T.tile.fill(a, 1.0)
        T.barrier_all()
        """,
        ub("a", "(1, 64)"),
        store="T.copy(a, C)",
        shape="(1, 64)",
    ),
    "use of an uninitialised UB buffer": vector("T.tile.add(c, a, a)", load=""),
    "output never written": vector("T.tile.add(a, a, a)", ub("a"), store=""),
    "1D UB vs 2D op: tile.broadcast wrong shape": vector(
        "T.tile.broadcast(c, r)",
        ub("r", "(32,)") + ub("c"),
        load="T.copy(A[0, 0:32], r)",
    ),
    "alloc_ub 3D buffer used by tile.add": vector(
        "T.tile.add(a, a, a)",
        ub("a", "(4, 4, 128)"),
        load="T.tile.fill(a, 1.5)",
        store="T.copy(a[3, 0:4, 0:128], C[0:4, 0:128])",
    ),
    # ------------------------------------------------------------------ slices
    "slice: tile.add(c[0:32, :], a[0:32, :], ...) both bounds explicit": _slices(
        "c[0:32, :]", "a[0:32, :]", "a[0:32, :]"
    ),
    "slice: tile.add(c[:32, :], a[:32, :], ...) upper only": _slices(
        "c[:32, :]", "a[:32, :]", "a[:32, :]"
    ),
    "slice: tile.add(c[32:, :], ...) lower only": _slices("c[32:, :]", "a[32:, :]", "a[32:, :]"),
    "slice: row c[3, :]": _slices("c[3, :]", "a[3, :]", op="exp"),
    "slice: keyword args dst=c[0:32, 0:128]": _slices(
        "dst=c[0:32, 0:128]", "src0=a[0:32, 0:128]", "src1=a[0:32, 0:128]"
    ),
    "slice: T.copy(a[0:32, 0:128], c[0:32, 0:128])": vector(
        "T.tile.fill(c, 0.0)\nT.barrier_all()\nT.copy(a[0:32, 0:128], c[0:32, 0:128])"
    ),
    "slice: T.tile.exp(c[3, 0:64], a[3, 0:64])": _slices("c[3, 0:64]", "a[3, 0:64]", op="exp"),
    "slice: column a[:, 3] (strided) as vector operand": _slices("c[:, 3]", "a[:, 3]", op="exp"),
    "slice: row out of bounds a[70, :]": _slices("c[3, :]", "a[70, :]", op="exp"),
    "slice: unaligned sub-row c[3, 1:] (lower only)": _slices("c[3, 1:]", "a[3, 1:]", op="exp"),
    # ------------------------------------------------------------------ scalar operands
    "scalar: tile.add(c, a, 1) int on fp32": vector("T.tile.add(c, a, 1)"),
    "scalar: tile.compare(mask, a, 0) int scalar": vector(
        'T.tile.compare(m, a, 0, "EQ")', _MASK, store="T.copy(a, C)"
    ),
    "scalar: tile.compare(mask, a, 0.0)": vector(
        'T.tile.compare(m, a, 0.0, "EQ")', _MASK, store="T.copy(a, C)"
    ),
    "scalar from UB: tile.mul(c, a, s[0])": vector(
        "T.tile.fill(s, 2.0)\nT.barrier_all()\nT.tile.mul(c, a, s[0])", ub("a c") + ub("s", "(8,)")
    ),
    "scalar from UB 2D: tile.mul(c, a, s[0, 3])": vector(
        "T.tile.fill(s, 2.0)\nT.barrier_all()\nT.tile.mul(c, a, s[0, 3])",
        ub("a c") + ub("s", "(8, 8)"),
    ),
    "scalar from GM: tile.mul(c, a, A[0, 0])": vector("T.tile.mul(c, a, A[0, 0])"),
    "vector operand in GM: tile.add(c, A, a)": vector("T.tile.add(c, A, a)"),
    "vector dst in GM: tile.add(C, a, a)": vector("T.tile.add(C, a, a)", ub("a c"), store=""),
    # ------------------------------------------------------------------ arithmetic that is missing
    "div by int buffer (int32 div)": vector(
        "T.tile.div(c, a, a)", ub("a c", dtype="int32"), dtype="int32"
    ),
    "mul int8": vector("T.tile.mul(c, a, a)", ub("a c", dtype="int8"), dtype="int8"),
    "cast fp32 -> int8 CAST_RINT": vector(
        'T.tile.cast(c, a, "CAST_RINT", 8192)',
        ub("a") + ub("c", dtype="int8"),
        params=_MIXED + 'C: T.Tensor((64, 128), "int8")',
    ),
    "cast fp32 -> bf16 CAST_NONE (needs a rounding mode)": vector(
        'T.tile.cast(c, a, "CAST_NONE", 8192)',
        ub("a") + ub("c", dtype="bfloat16"),
        params=_MIXED + 'C: T.Tensor((64, 128), "bfloat16")',
    ),
    "select: float mask": vector(
        'T.tile.fill(c, 0.0)\nT.tile.select(c, a, a, a, "VSEL_TENSOR_TENSOR_MODE")'
    ),
    "select: unknown mode": vector('T.tile.select(c, m, a, a, "VSEL_SOMEHOW")', _MASK),
    "select: ok": vector(
        'T.tile.compare(m, a, 0.0, "GT")\nT.barrier_all()\n'
        'T.tile.select(c, m, a, a, "VSEL_TENSOR_TENSOR_MODE")',
        _MASK,
    ),
    "gather: fp32 offsets": vector("T.tile.gather(c, a, a, 0)"),
    "transpose 64x128 -> 64x128 (not 16x16)": vector("T.tile.transpose(c, a)"),
    "fill with a Python int on fp32": vector("T.tile.fill(c, 1)"),
    # ------------------------------------------------------------------ broadcast, reduce: correct
    "broadcast [64,1] -> [64,128]": vector(
        "T.tile.broadcast(c, b)\nT.barrier_all()\nT.tile.add(c, c, a)",
        ub("a c") + ub("b", "(64, 1)"),
        load="T.copy(A, a)\nT.tile.fill(b, 0.5)",
    ),
    "broadcast [1,128] -> [64,128]": vector(
        "T.tile.broadcast(c, b)\nT.barrier_all()\nT.tile.add(c, c, a)",
        ub("a c") + ub("b", "(1, 128)"),
        load="T.copy(A, a)\nT.copy(B, b)",
        params=_ROW,
    ),
    "broadcast [64] -> [64,128] (1D source)": vector(
        "T.tile.broadcast(c, b)\nT.barrier_all()\nT.tile.add(c, c, a)",
        ub("a c") + ub("b", "(64,)"),
        load="T.copy(A, a)\nT.copy(B, b)",
        params=_COLUMN,
    ),
    "reduce_max into [64,1]": vector(
        "T.reduce_max(a, r, dim=-1)\nT.barrier_all()\nT.tile.broadcast(c, r)",
        ub("a c") + ub("r", "(64, 1)"),
    ),
    "reduce_sum fp16": _reduce("T.reduce_sum(a, r, dim=-1)", "(64,)", "float16"),
    "reduce dim=0": _reduce("T.reduce_max(a, r, dim=0)", "(128,)"),
    "topk K > n": vector("T.tile.topk(c, a, 10000, 8192)"),
    "sort32 on fp32 src with fp32 index": vector(
        "T.tile.sort32(c, a, a)",
        ub("a", "(32, 128)") + ub("c"),
        params='A: T.Tensor((32, 128), "float32"), B: T.Tensor((64, 128), "float32"), '
        'C: T.Tensor((64, 128), "float32")',
    ),
    "T.serial with a Python-visible UB allocation inside the loop": vector(
        """
        for k in T.serial(2):
            d = T.alloc_ub((64, 128), "float32")
            T.tile.add(d, a, a)
            T.barrier_all()
            T.tile.add(c, d, a)
            T.barrier_all()
        """
    ),
    # ------------------------------------------------------------------ T.Parallel, control flow
    "T.Parallel 2D add": parallel("c[i, j] = a[i, j] + a[i, j]"),
    "T.Parallel with if_then_else": parallel(
        "a[i, j] = T.if_then_else(a[i, j] > 0.0, a[i, j], 0.0)", ub("a"), store="T.copy(a, C)"
    ),
    "T.Parallel extents bigger than the buffer": vector(
        "for i, j in T.Parallel(128, 128):\n    c[i, j] = a[i, j] + 1.0"
    ),
    "T.Parallel strided index a[i, 2*j]": vector(
        "T.tile.fill(c, 0.0)\nT.barrier_all()\n"
        "for i, j in T.Parallel(64, 64):\n    c[i, j] = a[i, 2 * j]"
    ),
    "T.Parallel T.exp / T.max / T.sqrt": parallel(
        "c[i, j] = T.exp(T.max(a[i, j], 0.0)) * T.sqrt(a[i, j])"
    ),
    "T.Parallel T.tanh": parallel("c[i, j] = T.tanh(a[i, j])"),
    "T.Parallel cast T.Cast('float16', x)": parallel(
        'c[i, j] = T.Cast("float16", a[i, j])', _HALF_OUT, params=_HALF_C
    ),
    "T.Pipelined num_stages=2 loop": vector(
        "for k in T.Pipelined(4, num_stages=2):\n    T.tile.add(c, a, a)\n    T.barrier_all()"
    ),
    "Python 'and' in an if": vector("if cid >= 0 and cid < 4:\n    " + _ADD),
    "Python while on a tir var": vector(
        """
        n = T.alloc_var("int32", init=0)
        while n < 3:
            T.tile.add(c, a, a)
            T.barrier_all()
            n = n + 1
        """
    ),
    "Python list comprehension / range": vector(
        "for k in range(4):\n    T.tile.add(c, a, float(rows[1]))\n    T.barrier_all()",
        setup="rows = [2 * k for k in range(4)]",
    ),
    "assigning a scalar var twice x = 0; x = x + 1": vector(
        "x = 0\nx = x + 1\nT.tile.add(c, a, x)"
    ),
    "T.alloc_var mutable scalar": vector(
        'n = T.alloc_var("float32", init=1.0)\nn = n + 1.0\nT.tile.add(c, a, n)'
    ),
}
