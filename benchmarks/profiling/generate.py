"""A kernel_details.csv of any length from the rows of a real one.

python -m benchmarks.profiling.generate SAMPLE.csv OUT.csv [--rows 1000000]

The sample's rows repeat as steps: start times move on, task ids go up, durations vary by some per
cent; everything else stays as the profiler wrote it, its quotes and tabs included.
"""

from __future__ import annotations

import argparse
import csv
import io
import random
from decimal import Decimal
from pathlib import Path


def generate(sample: Path, out: Path, rows: int, seed: int = 0) -> None:
    """Write `rows` rows to `out`."""
    with sample.open(encoding="utf-8-sig", newline="") as stream:
        header, *cells = [row for row in csv.reader(stream) if row]
    whole = [row for row in cells if len(row) == len(header)]
    place = {name: header.index(name) for name in ("Start Time(us)", "Duration(us)", "Step Id")}
    task = header.index("Task ID") if "Task ID" in header else None
    starts = [Decimal(row[place["Start Time(us)"]].strip()) for row in whole]
    durations = [Decimal(row[place["Duration(us)"]].strip()) for row in whole]
    span = max(s + d for s, d in zip(starts, durations, strict=True)) - min(starts) + 100
    chance = random.Random(seed)
    temporary = out.with_name(f".{out.name}.part")
    with temporary.open("w", encoding="utf-8", newline="") as stream:
        stream.write(_line(header))
        for number in range(rows):
            step, which = divmod(number, len(whole))
            row = list(whole[which])
            row[place["Step Id"]] = str(step)
            row[place["Start Time(us)"]] = f"{starts[which] + step * span}\t"
            shorter = durations[which] * chance.randrange(950, 1001) / 1000
            row[place["Duration(us)"]] = f"{shorter:.3f}"
            if task is not None:
                row[task] = str(number)
            stream.write(_line(row))
    temporary.replace(out)


def _line(cells: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sample", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    generate(options.sample, options.out, options.rows)


if __name__ == "__main__":
    main()
