"""The first cause in logs of the forms that public sources show."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from ascend_infer.diagnose import diagnose_logs

TEXT = (Path(__file__).parent / "public_excerpts.txt").read_text(encoding="utf-8")
BLOCKS = re.split(r"^== ", TEXT, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.partition("--")[0].strip())
def test_the_first_cause(tmp_path: Path, block: str) -> None:
    _, *lines = block.rstrip().splitlines()
    (cause,) = [number for number, line in enumerate(lines, 1) if line.startswith(">>")]
    log = tmp_path / "a.log"
    log.write_text("\n".join(line.removeprefix(">>") for line in lines), encoding="utf-8")
    found = diagnose_logs([str(log)]).cause
    assert found is not None and found.where == f"{log}:{cause}"


def test_there_are_enough() -> None:
    assert len(BLOCKS) >= 30


@pytest.mark.parametrize("seed", range(20))
def test_damaged_excerpts_never_raise(tmp_path: Path, seed: int) -> None:
    """Bytes changed, lost and repeated, lines in another order, all excerpts in one log."""
    rng = random.Random(seed)
    lines = TEXT.encode().split(b"\n")
    rng.shuffle(lines)
    data = bytearray(b"\n".join(lines))
    for _ in range(rng.randrange(2000)):
        place = rng.randrange(len(data))
        match rng.randrange(3):
            case 0:
                data[place] = rng.randrange(256)
            case 1:
                del data[place : place + rng.randrange(9)]
            case _:
                data[place:place] = data[place : place + rng.randrange(60)]
    log = tmp_path / "a.log"
    log.write_bytes(data)
    diagnosis = diagnose_logs([str(log)])
    assert diagnosis.cause is not None and json.dumps(diagnosis.to_dict())
