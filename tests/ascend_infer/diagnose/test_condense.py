"""Damaged lines count for what they say themselves, whatever the lines before them said."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from ascend_infer.diagnose import diagnose_logs
from ascend_infer.diagnose.capture import CaptureEvidence
from ascend_infer.diagnose.events import read_line

EXCERPTS = Path(__file__).with_name("public_excerpts.txt").read_text().splitlines()
COLOURS = ("\x1b[31m", "\x1b[0m", "\x1b[1;33m")


def damaged(rng: random.Random, line: str) -> str:
    """A line with a character more or less, other digits, or colours."""
    at = rng.randrange(len(line) + 1)
    return rng.choice(
        (
            line,
            line[:at] + line[at + 1 :],
            line[:at] + rng.choice("0aE:[](\x00é ") + line[at:],
            re.sub(r"\d", lambda _: str(rng.randrange(10)), line),
            rng.choice(COLOURS) + line,
            line[:at] + rng.choice(COLOURS) + line[at:],
        )
    )


@pytest.mark.parametrize("seed", range(4))
def test_each_line_counts_as_if_it_were_alone(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    # Frames of tracebacks are not looked at further, whatever a damaged one looks like.
    whole = [line for line in EXCERPTS if "File " not in line]
    lines = [damaged(rng, rng.choice(whole)) for _ in range(3000)]
    lines = [
        line for line in lines if "\n" not in line and not CaptureEvidence().add(line.encode())
    ]
    expected: Counter[tuple[str, str]] = Counter()
    for line in lines:
        error = read_line(line.encode()).error
        if error is not None:
            expected[error.explanation.key, error.place] += 1
    log = tmp_path / "a.log"
    log.write_text("\n".join(lines))
    found = {(g.explanation.key, g.place): g.count for g in diagnose_logs([str(log)]).groups}
    assert found == dict(expected)
