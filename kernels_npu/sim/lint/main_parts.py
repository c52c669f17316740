"""Running what a file does only as a script or under pytest, to see how it calls its factories."""

from __future__ import annotations

import ast
import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

#: Parametrised cases run per test function.
_MOST_CASES = 64


def run_main_parts(file: Path, module: ModuleType) -> None:
    """Run the `if __name__ == "__main__"` blocks and the test functions of an executed module.

    Nothing is launched and no tensor holds data, so that what fails says nothing: errors of the
    script's own code are dropped; those of its kernels were recorded where they arose.
    """
    tree = ast.parse(file.read_bytes(), str(file))
    for block in tree.body:
        if isinstance(block, ast.If) and _asks_for_main(block.test):
            code = compile(ast.Module(block.body, []), str(file.resolve()), "exec")
            with contextlib.suppress(Exception, SystemExit):
                exec(code, module.__dict__)
    for name, function in list(vars(module).items()):
        if name.startswith("test_") and callable(function):
            for arguments in itertools.islice(_cases(function), _MOST_CASES):
                with contextlib.suppress(Exception, SystemExit):
                    function(**arguments)


def _asks_for_main(test: ast.expr) -> bool:
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    return "__name__" in names


def _cases(function: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """The arguments of each parametrised case."""
    choices: list[list[dict[str, Any]]] = []
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "parametrize":
            names, values = mark.args[:2]
            split = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
            choices.append([dict(zip(split, _row(value, len(split)))) for value in values])
    for combination in itertools.product(*choices):
        yield {name: value for row in combination for name, value in row.items()}


def _row(value: Any, count: int) -> tuple[Any, ...]:
    """A case's values; `pytest.param` carries them in `values`."""
    if hasattr(value, "values") and hasattr(value, "marks"):
        return tuple(value.values)
    return (value,) if count == 1 else tuple(value)
