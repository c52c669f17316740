"""`T.printf` and `T.dump_tensor`: output of a core, each line with its block and core."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels_npu.errors import KernelSourceError, SourceLocation
from kernels_npu.sim.machine.instruction import AnyArray
from kernels_npu.sim.scalar_ops import is_float

_CONVERSION = re.compile(r"%([-+ #0]*)(\d*)(\.\d+)?(hh|h|ll|l|z)?([a-zA-Z%])")
_INTEGER, _FLOAT = "diuxXoc", "feEgGF"
_BITS = {"hh": 8, "h": 16, "": 32, "l": 64, "ll": 64, "z": 64}

#: Elements in a printed row of a tensor without a shape.
_ROW = 8


@dataclass(frozen=True, kw_only=True)
class Format:
    """A C format, taken apart: what Python's `%` takes, and per value its conversion and bits."""

    text: str
    kinds: tuple[tuple[str, int], ...]

    def render(self, values: Sequence[object]) -> str:
        """The text with `values` put in."""
        return self.text % tuple(
            _argument(value, kind, bits) for value, (kind, bits) in zip(values, self.kinds)
        )


def _argument(value: object, kind: str, bits: int) -> object:
    if kind in "uxXo":  # unsigned: the two's complement of a negative number
        return int(value) & ((1 << bits) - 1)  # type: ignore[call-overload]
    if kind == "p":
        return f"{int(value):#x}"  # type: ignore[call-overload]
    return int(value) if kind in _INTEGER else value  # type: ignore[call-overload]


def parse_format(text: str, dtypes: Sequence[str], loc: SourceLocation) -> Format:
    """The format of `T.printf` for values of `dtypes`.

    Raises:
        KernelSourceError: AI-SRC-066 when conversions and arguments do not fit together.
    """
    kinds: list[tuple[str, int]] = []

    def replace(match: re.Match[str]) -> str:
        flags, width, precision, size, kind = match.groups()
        if kind == "%":
            return "%%"
        kinds.append((kind, _BITS[size or ""]))
        shown = {"u": "d", "i": "d", "p": "s", "F": "f"}.get(kind, kind)
        return f"%{flags}{width}{precision or ''}{shown}"

    python_text = _CONVERSION.sub(replace, text)
    problem = _mismatch(kinds, dtypes)
    if problem is not None:
        raise KernelSourceError(
            "AI-SRC-066",
            f"T.printf({text!r}): {problem}",
            where=loc,
            rule="each conversion of the format takes one argument: %d %u %x integers, "
            "%f %e %g floats, %p a buffer",
            fix="give one argument of the right kind per conversion",
        )
    return Format(text=python_text, kinds=tuple(kinds))


def _mismatch(kinds: Sequence[tuple[str, int]], dtypes: Sequence[str]) -> str | None:
    if len(kinds) != len(dtypes):
        return f"{len(kinds)} conversions, {len(dtypes)} arguments"
    for (kind, _), dtype in zip(kinds, dtypes):
        if kind not in _INTEGER + _FLOAT + "p":
            return f"%{kind} is not known"
        fits = dtype == "handle" if kind == "p" else dtype != "handle"
        if kind != "p":
            fits = fits and is_float(dtype) == (kind in _FLOAT)
        if not fits:
            return f"%{kind} with a {'buffer' if dtype == 'handle' else dtype} value"
    return None


class Console:
    """Output of one core. Lines appear whole: what several cores print is not mixed in a line."""

    def __init__(self, core: str) -> None:
        self._core = core
        self._line = ""
        self._block = 0

    def printf(self, block: int, fmt: Format, *values: object) -> None:
        """Print formatted values."""
        self._write(block, fmt.render(values))

    def dump(
        self,
        block: int,
        what: str,
        desc: int,
        data: AnyArray,
        shape: tuple[int, ...],
    ) -> None:
        """Print the elements `data`, as rows of `shape` where one is given."""
        self.flush()
        columns = shape[-1] if shape and shape[-1] else _ROW
        lines = [f"dump_tensor desc={desc} {what}, {data.size} elements"]
        rows = (data[start : start + columns] for start in range(0, data.size, columns))
        lines += [" ".join(_element(v) for v in row) for row in rows]
        self._write(block, "\n".join(lines) + "\n")

    def flush(self) -> None:
        """Print a line that no newline has ended."""
        if self._line:
            self._write(self._block, "\n")

    def _write(self, block: int, text: str) -> None:
        self._block = block
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            print(f"[block {block} {self._core}] {line}", file=sys.stdout, flush=True)


def _element(value: np.generic) -> str:
    if value.dtype.kind in "iub":
        return f"{int(value):d}"
    return f"{float(value):.6g}"
