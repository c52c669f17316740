"""Buffers: parameters, on-chip allocations, scalar registers, addresses, layouts, views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernels_npu.sim import ir
from kernels_npu.sim.dtypes import bytes_of, canonical
from kernels_npu.sim.frontend.affine import constant, show
from kernels_npu.sim.frontend.builder import require
from kernels_npu.sim.frontend.diagnostics import fail, here
from kernels_npu.sim.frontend.language.operands import emit
from kernels_npu.sim.frontend.values import (
    PendingOp,
    ScalarType,
    TensorBuffer,
    TensorSpec,
    cast_to,
    describe,
    is_bound,
)

_STATIC_RULE = "on-chip memory is laid out when the kernel is built, so its shape is static"


def dtype_name(dtype: Any) -> str:
    """The canonical name of a dtype string or a `tilelang.DataType`."""
    name = getattr(dtype, "name", dtype)
    if not isinstance(name, str):
        given = repr(dtype) if isinstance(dtype, ScalarType) else describe(dtype)
        fail(
            "AI-SRC-028",
            f"{given} is given as a dtype",
            rule="a dtype is a string",
            fix='write "float16", "float32", "int32", ...',
        )
    return canonical(name, here())


def _extents(shape: Any) -> list[Any]:
    return list(shape) if isinstance(shape, (tuple, list)) else [shape]


def _static(what: str, shape: Any) -> tuple[int, ...]:
    sizes: list[int] = []
    for extent in _extents(shape):
        number = constant(extent)
        if number is None or number <= 0:
            fail(
                "AI-SRC-028",
                f"T.{what}: the shape {show(_extents(shape))} has the extent "
                f"{describe(extent) if number is None else number}",
                rule=_STATIC_RULE,
                fix="use positive Python integers from the factory's arguments; "
                "let T.copy clip the tail",
            )
        if is_bound(extent):
            fail(
                "AI-SRC-028",
                f"T.{what}: the extent {number} comes from a name bound inside the kernel",
                rule="the compiler makes a run-time variable of every name bound in the kernel",
                fix="compute the size in the factory, above the @T.prim_func",
            )
        sizes.append(number)
    return tuple(sizes)


def _allocator(name: str, scope: str) -> Callable[..., TensorBuffer]:
    def alloc(shape: Any, dtype: Any) -> TensorBuffer:
        return require(name).alloc(scope, _static(name, shape), dtype_name(dtype))

    alloc.__name__ = alloc.__qualname__ = name
    alloc.__doc__ = f"`T.{name}(shape, dtype)`: a buffer in {scope.upper()}; uninitialised."
    return alloc


alloc_ub = _allocator("alloc_ub", "ub")
alloc_L1 = _allocator("alloc_L1", "l1")
alloc_L0A = _allocator("alloc_L0A", "l0a")
alloc_L0B = _allocator("alloc_L0B", "l0b")
alloc_L0C = _allocator("alloc_L0C", "l0c")


def alloc_shared(shape: Any, dtype: Any, scope: str = "shared.dyn") -> TensorBuffer:
    """`T.alloc_shared(shape, dtype)`: UB or L1, inferred from use."""
    del scope
    size = _static("alloc_shared", shape)
    return require("alloc_shared").alloc("shared", size, dtype_name(dtype))


def alloc_fragment(shape: Any, dtype: Any, scope: str = "local.fragment") -> TensorBuffer:
    """`T.alloc_fragment(shape, dtype)`: L0A, L0B or L0C, inferred from its place in gemm or mma."""
    del scope
    size = _static("alloc_fragment", shape)
    return require("alloc_fragment").alloc("fragment", size, dtype_name(dtype))


_NO_INIT: Any = object()


def alloc_var(
    dtype: Any, *args: Any, scope: str = "local.var", init: Any = _NO_INIT
) -> TensorBuffer:
    """`T.alloc_var(dtype, init=0)`: a scalar register that assignments change.

    Also `alloc_var(dtype, init)`, `alloc_var(dtype, scope)` and `alloc_var(dtype, init, scope)`.
    """
    rest = [a for a in args if not isinstance(a, str)]
    if len(args) > 2 or len(rest) > 1 or (rest and init is not _NO_INIT):
        fail(
            "AI-SRC-009",
            f"T.alloc_var: {len(args)} positional arguments after dtype, or two initial values",
            rule="the signature is T.alloc_var(dtype, init=value)",
            fix="write T.alloc_var(dtype, init=value)",
        )
    del scope
    if rest:
        (init,) = rest
    builder = require("alloc_var")
    buffer = builder.alloc("var", (1,), dtype_name(dtype))
    value = 0 if init is _NO_INIT or init is None else init
    if not isinstance(value, (bool, int, float, ir.Expr)):
        fail("AI-SRC-012", f"T.alloc_var: init is {describe(value)}", rule="init is a scalar")
    zero = (ir.Const(0, "int32"),)
    builder.emit(
        ir.Store(loc=builder.where, buffer=buffer, indices=zero, value=cast_to(value, buffer.dtype))
    )
    return buffer


# --------------------------------------------------------------------------- parameters


class TensorProxy:
    """`T.Tensor(shape, dtype)` or `T.Tensor[shape, dtype]`: a tensor parameter in global memory."""

    def __call__(self, shape: Any, dtype: Any = "float32", *_: Any, **__: Any) -> TensorSpec:
        extents: list[ir.Expr | int] = []
        for extent in _extents(shape):
            number = constant(extent)
            if number is None and not isinstance(extent, ir.Expr):
                fail(
                    "AI-SRC-023",
                    f"T.Tensor: an extent is {describe(extent)}",
                    rule="extents are integers or expressions of T.symbolic dimensions",
                    fix='use an int or T.symbolic("n")',
                )
            extents.append(extent if number is None else number)
        return TensorSpec(tuple(extents), dtype_name(dtype))

    def __getitem__(self, keys: Any) -> TensorSpec:
        if isinstance(keys, tuple) and len(keys) >= 2 and isinstance(keys[1], str):
            return self(*keys)
        return self(keys)


Tensor = TensorProxy()


def symbolic(name: str, dtype: str = "int32") -> ir.Var:
    """`T.symbolic("M")`: a dimension known at launch."""
    return ir.Var(name, dtype_name(dtype))


# --------------------------------------------------------------------------- addresses and layouts


def annotate_address(address_map: Mapping[Any, Any]) -> None:
    """`T.annotate_address({buffer: byte_offset})`: place buffers by hand; they may overlap."""
    builder = require("annotate_address")
    for buffer, address in address_map.items():
        offset = constant(address)
        if not isinstance(buffer, ir.Buffer) or buffer.scope in ("global", "var"):
            fail(
                "AI-SRC-031",
                f"T.annotate_address: {describe(buffer)} gets an address",
                rule="only on-chip buffers are placed",
                fix="remove the entry",
            )
        if offset is None or offset < 0:
            fail(
                "AI-SRC-031",
                f"T.annotate_address: the address of {buffer.name} is {describe(address)}",
                rule="an address is a static byte offset in the buffer's memory",
                fix="use a non-negative integer",
            )
        builder.addresses[buffer] = offset


def annotate_layout(layout_map: Mapping[Any, Any]) -> None:
    """`T.annotate_layout({buffer: make_zn_layout(buffer)})`: how slice offsets are computed."""
    builder = require("annotate_layout")
    for buffer, layout in layout_map.items():
        if not isinstance(buffer, ir.Buffer) or not isinstance(layout, Layout):
            fail(
                "AI-SRC-031",
                f"T.annotate_layout: {describe(buffer)} gets {describe(layout)}",
                rule="keys are buffers, values come from make_zn_layout, make_nz_layout, ...",
                fix="write {buf: make_zn_layout(buf)}",
            )
        builder.layouts[buffer] = layout.name


class Layout:
    """A named layout of `make_*_layout`."""

    def __init__(self, name: str) -> None:
        self.name = name


def make_zn_layout(buf: ir.Buffer) -> Layout:
    """16 x C0 fractals, column by column."""
    del buf
    return Layout("zn")


def make_nz_layout(buf: ir.Buffer) -> Layout:
    """The transposed fractal order."""
    del buf
    return Layout("nz")


def make_col_major_layout(buf: ir.Buffer) -> Layout:
    """Plain column major."""
    del buf
    return Layout("col_major")


# --------------------------------------------------------------------------- views


def reinterpretcast(dst: Any, src: Any, casttype: str) -> PendingOp:
    """`T.reinterpretcast(dst, src, "ctype")`: `dst` becomes another name of the bytes of `src`."""
    for name, value in (("dst", dst), ("src", src)):
        if not isinstance(value, ir.Buffer):
            fail(
                "AI-SRC-012",
                f"T.reinterpretcast: {name} is {describe(value)}",
                rule="both operands are whole buffers",
                fix="pass whole buffers",
            )
    return emit("reinterpretcast", "reinterpretcast", (dst, src), {"dtype": str(casttype)})


def reshape(src: Any, shape: Sequence[Any]) -> TensorBuffer:
    """`T.reshape(buffer, shape)`: the same bytes with another shape."""
    return view(src, shape)


def view(src: Any, shape: Sequence[Any] | None = None, dtype: Any = None) -> TensorBuffer:
    """`T.view(buffer, shape, dtype)`: the same bytes with another shape or dtype."""
    builder = require("view")
    if not isinstance(src, ir.Buffer):
        fail("AI-SRC-012", f"T.view of {describe(src)}", rule="a view is of a whole buffer")
    size = tuple(src.shape) if shape is None else tuple(_extents(shape))
    name = src.dtype if dtype is None else dtype_name(dtype)
    if src.scope != "global":
        size = _static("view", size)
        before = bytes_of(src.dtype) * _product(_static("view", src.shape))
        after = bytes_of(name) * _product(size)
        if after > before:
            fail(
                "AI-SRC-028",
                f"T.view: {show(size)} of {name} is {after} bytes, {src.name} has {before}",
                rule="a view shows the bytes of its buffer",
                fix="choose a shape that fits",
            )
    buffer = TensorBuffer("", src.scope, size, name, builder.where, src, 0)
    if src.scope != "global":
        builder.allocs.append(buffer)
    return buffer


def _product(shape: Sequence[Any]) -> int:
    total = 1
    for extent in shape:
        total *= int(extent)
    return total
