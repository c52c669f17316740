"""Decode graphs: what they cost and save. One part per question.

python -m benchmarks.graphs padding [--json FILE]
python -m benchmarks.graphs replay [--device cuda:0] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

from benchmarks.graphs import padding, replay

#: Name -> module with `add_options(parser)` and `run(arguments, console) -> figures`.
PARTS: dict[str, ModuleType] = {"padding": padding, "replay": replay}

Run = Callable[[argparse.Namespace, Console], dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.graphs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = parser.add_subparsers(dest="part", metavar="PART", required=True)
    for name, module in PARTS.items():
        description = (module.__doc__ or "").partition("\n")[0]
        part = parts.add_parser(name, help=description, description=module.__doc__)
        module.add_options(part)
        part.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
        part.set_defaults(run=module.run)
    arguments = parser.parse_args()
    run: Run = arguments.run
    figures = run(arguments, Console())
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        temporary = arguments.json.with_name(f".{arguments.json.name}.{os.getpid()}")
        temporary.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        temporary.replace(arguments.json)


if __name__ == "__main__":
    main()
