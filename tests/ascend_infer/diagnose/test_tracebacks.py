"""Which frame is named with an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_infer.diagnose import diagnose_logs

HEAD = "Traceback (most recent call last):\n"
LIBRARY = (
    '  File "/opt/env/lib/python3.11/site-packages/torch/nn/modules/module.py", line 9, in f\n'
)
STDLIB = '  File "/usr/lib/python3.11/runpy.py", line 3, in g\n'
OWN = '  File "/srv/app/block.py", line {}, in decode\n    x = lens.max().item()\n'
CODE = "RuntimeError: NPU function error: aclrtSynchronizeStream, error code is {}\n"


def frames(tmp_path: Path, text: str) -> dict[str, str | None]:
    log = tmp_path / "a.log"
    log.write_text(text)
    return {g.explanation.key: g.frame for g in diagnose_logs([str(log)]).groups}


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        (OWN.format(3) + OWN.format(7) + LIBRARY, "/srv/app/block.py:7"),
        (OWN.format(3) + LIBRARY + OWN.format(7), "/srv/app/block.py:7"),
        (STDLIB + LIBRARY, "/opt/env/lib/python3.11/site-packages/torch/nn/modules/module.py:9"),
        (OWN.format(3) + '  File "<frozen runpy>", line 88, in _run_code\n', "/srv/app/block.py:3"),
        ("", None),
    ],
)
def test_the_deepest_frame_of_the_users_own_code(tmp_path: Path, text: str, frame: str) -> None:
    assert frames(tmp_path, HEAD + text + CODE.format(107027)) == {"107027": frame}


def test_a_frame_does_not_stick_to_a_later_error(tmp_path: Path) -> None:
    first = HEAD + OWN.format(3) + "ValueError: x\n"
    assert frames(tmp_path, first + CODE.format(107027))["107027"] is None
    assert frames(tmp_path, first + HEAD + CODE.format(107027))["107027"] is None
    assert frames(tmp_path, HEAD + OWN.format(3) + "\n" * 50 + CODE.format(107027)) == {
        "107027": None
    }
    # Also where the first kind of error is only counted by then.
    again = first + "INFO ok\n" + first + CODE.format(107027)
    assert frames(tmp_path, again) == {"ValueError": "/srv/app/block.py:3", "107027": None}


def test_further_lines_of_an_exception_have_its_frame(tmp_path: Path) -> None:
    text = HEAD + OWN.format(3) + "RuntimeError: call failed\nEL0004: [PID: 1] out of memory\n"
    assert frames(tmp_path, text)["EL0004"] == "/srv/app/block.py:3"
    plog = "[ERROR] RUNTIME(1,):2026-03-10-16:49:31.543.228 [a.cc:1]7 f:retCode=507015\n"
    assert frames(tmp_path, HEAD + OWN.format(3) + plog)["507015"] is None


def test_processes_that_write_into_one_log_are_kept_apart(tmp_path: Path) -> None:
    prefixes = ["[rank0]: ", "(Worker_TP1 pid=7) ERROR 05-02 10:11:12 [core.py:708] "]
    texts = [
        (HEAD + OWN.format(3) + CODE.format(107027)).splitlines(),
        (HEAD + OWN.format(7) + CODE.format(107030)).splitlines(),
    ]
    mixed = "".join(f"{p}{line}\n" for lines in zip(*texts) for p, line in zip(prefixes, lines))
    found = frames(tmp_path, mixed)
    assert found == {"107027": "/srv/app/block.py:3", "107030": "/srv/app/block.py:7"}
