"""`scripts/fuzz`: looks for kernels that break a property, for as long as it is told to."""

from __future__ import annotations

import argparse
import itertools
import sys
import time

from kernels_npu.sim.fuzzing.properties import properties
from kernels_npu.sim.fuzzing.shrinking import explore

#: Kernels of one kind in a row, before the next kind.
_EXAMPLES = 20


def main() -> int:
    """Fuzz; 1 when a property was violated."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (default 5)")
    parser.add_argument("--seed", type=int, default=0, help="another one gives other kernels")
    parser.add_argument(
        "--only", default="", help="properties whose name has this word: correct, deletion, ..."
    )
    options = parser.parse_args()
    chosen = [(name, check) for name, check in properties().items() if options.only in name]
    ends = time.monotonic() + options.minutes * 60
    tried = dict.fromkeys((name for name, _ in chosen), 0)
    failed: set[str] = set()
    for number in itertools.count(options.seed):
        for name, check in chosen:
            if time.monotonic() > ends or len(failed) == len(chosen):
                _report(tried, failed)
                return 1 if failed else 0
            if name in failed:
                continue
            try:
                explore(check, examples=_EXAMPLES, number=number)
            except Exception as violation:  # noqa: BLE001 (whatever a kernel can cause is a find)
                failed.add(name)
                print(f"{name}, seed {number}: {type(violation).__name__}: {violation}\n")
            tried[name] += _EXAMPLES
    return 0


def _report(tried: dict[str, int], failed: set[str]) -> None:
    for name, count in tried.items():
        print(f"{name:<20} {count:>7} kernels  {'FAILED' if name in failed else 'ok'}")


if __name__ == "__main__":
    sys.exit(main())
