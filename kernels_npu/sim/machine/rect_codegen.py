"""Code generation of rectangles of global tensors: bounds, the clipped view, its position."""

from __future__ import annotations

from dataclasses import dataclass

from kernels_npu.sim import ir
from kernels_npu.sim.machine.access_codegen import AccessCodegen
from kernels_npu.sim.machine.operands import Rect
from kernels_npu.sim.machine.sites import Site


@dataclass(frozen=True)
class _Texts:
    """Texts of a rectangle: first index and size per dimension, extents."""

    mins: list[str]
    shape: list[str]
    rows: str
    cols: str


def emit_rect(code: AccessCodegen, site: Site, rect: Rect) -> tuple[str, str]:
    """Bind the clipped rectangle of a global tensor; returns its name and its position's text."""
    index, tensor = code.tensor_of(rect.buffer), code.tensor_name(rect.buffer)
    texts = _Texts(
        mins=[code.named(m) for m in rect.mins],
        shape=[code.writer.text(ir.as_expr(d)) for d in rect.buffer.shape],
        cols=code.named(rect.cols),
        rows=code.named(rect.rows),
    )
    mins, last = texts.mins, len(texts.mins) - 1
    if code.checks.bounds:
        _emit_bounds(code, site, rect, texts)
    parts = list(mins)
    parts[last] = f"{mins[last]}:{mins[last]} + {texts.cols}"
    name = code.temporary()
    if rect.row_dim is None:
        code.emit(f"{name} = {tensor}[None, {parts[last]}]", inert=True)
    else:
        row = mins[rect.row_dim]
        parts[rect.row_dim] = f"{row}:{row} + {texts.rows}"
        code.emit(f"{name} = {tensor}[{', '.join(parts)}]", inert=True)
    short, monitored = index in code.short, index in code.tracked and code.monitored
    if not short and not monitored:
        return name, ""
    position = mins[0]
    for start, size in zip(mins[1:], texts.shape[1:]):
        position = f"({position} * {size} + {start})"
    pitch = f"{name}.strides[0] // {name}.itemsize"
    if short:
        end = f"{position} + ({name}.shape[0] - 1) * ({pitch}) + {name}.shape[1]"
        code.emit(
            f"if {name}.size and {end} > F{index}.size: "
            f"R.beyond_bytes({site.index}, {index}, {end})"
        )
    if not monitored:
        return name, ""
    return name, f"({position}, {name}.shape[0], {name}.shape[1], {pitch})"


def _emit_bounds(code: AccessCodegen, site: Site, rect: Rect, texts: _Texts) -> None:
    """Moves to and from UB are clipped at the border; the cube's need a tile that starts inside."""
    last, dim = len(texts.mins) - 1, rect.row_dim
    clipped = site.gm_path in ("GM->UB", "UB->GM")
    # A tile that lies outside as a whole is read and written in full by the cube's copies.
    open_ended = {last, dim} if clipped else set()
    tests = [_index_test(code, rect, texts, i, below=i not in open_ended) for i in range(last + 1)]
    for size, text in ((rect.rows, texts.rows), (rect.cols, texts.cols)):
        if code.writer.values(size)[0] < 0:
            tests.append(f"{text} >= 0")
    if dim is not None and not clipped and code.writer.values(rect.rows)[0] <= 0:
        tests.append(f"{texts.rows} > 0")
    needed = [test for test in tests if test]
    tensor, where = code.tensor_of(rect.buffer), f"({', '.join(texts.mins)},)"
    if needed:
        code.emit(f"if not ({' and '.join(needed)}):")
        code.emit(f"    R.out_of_bounds({site.index}, {tensor}, {where})")
    if dim is not None and clipped and not _starts_inside(code, rect, dim):
        some = "" if code.writer.values(rect.rows)[0] > 0 else f" and {texts.rows} > 0"
        code.emit(f"{'elif' if needed else 'if'} {texts.mins[dim]} >= {texts.shape[dim]}{some}:")
        code.emit(f"    R.beyond_border({site.index}, {tensor}, {where}, {texts.rows})")


def _index_test(code: AccessCodegen, rect: Rect, texts: _Texts, i: int, *, below: bool) -> str:
    """The test of the first index in dimension `i`, as far as its outcome is not certain.

    below: it must also be below the dimension's size.
    """
    index = texts.mins[i]
    low = "0 <= " if code.writer.values(rect.mins[i])[0] < 0 else ""
    high = f" < {texts.shape[i]}" if below and not _starts_inside(code, rect, i) else ""
    return f"{low}{index}{high}" if low or high else ""


def _starts_inside(code: AccessCodegen, rect: Rect, i: int) -> bool:
    """Whether the first index in dimension `i` is certainly below the dimension's size."""
    size = ir.as_expr(rect.buffer.shape[i])
    return isinstance(size, ir.Const) and code.writer.values(rect.mins[i])[1] < size.value
