"""Damaged texts: lines and tokens of a kernel taken out, repeated, moved or replaced."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings

from kernels_npu.sim.fuzzing.draw import Draw

_NUMBERS = ("0", "1", "-1", "3", "64", "1000", "2.5", "None", "True", "cid", "height")
_STRINGS = ('"float32"', '"float16"', '"int8"', '"float64"', '"nonsense"', '""', "3", "None")
_OPERATORS = ("+", "-", "*", "/", "//", "%", ",", ":", "==", "and", ".")
_NAMES = ("T", "fill", "copy", "exp", "alloc_L1", "alloc_var", "serial", "Parallel", "Tensor",
          "symbolic", "range", "print", "kernel", "gemm_v0", "reduce_sum")  # fmt: skip

#: Mistakes that are tried until one leaves a text that Python accepts.
_ATTEMPTS = 8

#: Kinds of tokens that are replaced by one of their kind, and what may stand in their place.
_REPLACED = {
    tokenize.NUMBER: _NUMBERS,
    tokenize.STRING: _STRINGS,
    tokenize.OP: _OPERATORS,
    tokenize.NAME: _NAMES,
}


def damaged(text: str, draw: Draw) -> str:
    """`text` with up to three mistakes below the line that defines `make`; Python accepts it."""
    head, body = text.split("def make():\n")
    head += "def make():\n"
    for _ in range(draw.integer(1, 3)):
        for _ in range(_ATTEMPTS):
            damage = draw.choice((_damage_token, _damage_line))
            changed = damage(body, draw)
            if _is_python(head + changed):
                body = changed
                break
    return head + body


def _is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError:
        return False
    return True


def _damage_line(body: str, draw: Draw) -> str:
    lines = body.splitlines()
    at = draw.integer(0, len(lines) - 1)
    other = draw.integer(0, len(lines) - 1)
    kind = draw.choice(("drop", "repeat", "swap", "move", "indent"))
    if kind == "drop":
        del lines[at]
    elif kind == "repeat":
        lines.insert(at, lines[at])
    elif kind == "swap":
        lines[at], lines[other] = (
            _indented(lines[other], lines[at]),
            _indented(lines[at], lines[other]),
        )
    elif kind == "move":
        moved = lines.pop(at)
        other = min(other, len(lines) - 1)
        lines.insert(other, _indented(moved, lines[other]))
    else:
        lines[at] = lines[at][4:] if lines[at].startswith("        ") else "    " + lines[at]
    return "\n".join(lines) + "\n"


def _indented(line: str, like: str) -> str:
    return like[: len(like) - len(like.lstrip())] + line.lstrip()


def _damage_token(body: str, draw: Draw) -> str:
    tokens = list(tokenize.generate_tokens(io.StringIO(body).readline))
    chosen = [token for token in tokens if token.type in _REPLACED]
    token = draw.choice(chosen)
    fixed = _REPLACED[token.type]
    alike = sorted({t.string for t in tokens if t.type == token.type})
    new = draw.choice(("", *fixed, *alike))
    lines = body.splitlines()
    row, (start, stop) = token.start[0] - 1, (token.start[1], token.end[1])
    lines[row] = lines[row][:start] + new + lines[row][stop:]
    return re.sub(r"[ \t]+\n", "\n", "\n".join(lines)) + "\n"
