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
    mins, shape, dim = texts.mins, texts.shape, rect.row_dim
    last = len(mins) - 1
    tests = [f"0 <= {m} < {d}" for m, d in zip(mins, shape)]
    if dim is not None:
        tests[dim] = f"0 <= {mins[dim]}"
    tests[last] = f"0 <= {mins[last]}"
    clipped = site.gm_path in ("GM->UB", "UB->GM")
    if not clipped:
        # A tile that lies outside as a whole is read and written in full by the cube's copies.
        tests[last] += f" < {shape[last]}"
        if dim is not None:
            tests[dim] += f" < {shape[dim]} and {texts.rows} > 0"
    tests += [f"{e} >= 0" for e in (texts.rows, texts.cols) if not e.isdigit()]
    tensor, where = code.tensor_of(rect.buffer), f"({', '.join(mins)},)"
    code.emit(f"if not ({' and '.join(tests)}):")
    code.emit(f"    R.out_of_bounds({site.index}, {tensor}, {where})")
    if dim is not None and clipped:
        some = "" if texts.rows.isdigit() else f" and {texts.rows} > 0"
        code.emit(f"elif {mins[dim]} >= {shape[dim]}{some}:")
        code.emit(f"    R.beyond_border({site.index}, {tensor}, {where}, {texts.rows})")
