"""Lines that are only counted are counted as if each had been looked at; order and first causes."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from ascend_infer.diagnose import condense, diagnose_logs
from ascend_infer.diagnose.events import parse_error, split_prefix

CALLS = ("Alloc sq cq fail", "AllocTask:Unsupported", "Setup failed", "rtMemcpy failed", "x")
WORDS = ("", "stream", "".join(random.Random(3).sample("abdfghijklmno", 9)), "Extra", "0x12")
CODES = ("507015", "0x7bc87", "207008", "0x7020023", "EE9999:", "EZ1001:", "ERR00100 PTA", "17")


def plog(rng: random.Random, second: int) -> str:
    time = f"2026-03-10-16:49:{second:02}.{rng.randrange(1000):03}.{rng.randrange(1000):03}"
    return (
        f"[{rng.choice(('ERROR', 'INFO', 'ERROR'))}] RUNTIME({rng.randrange(9999)},python):{time} "
        f"[a.cc:{rng.randrange(4)}]{rng.randrange(999)} {rng.choice(CALLS)} {rng.choice(WORDS)}, "
        f"sid={rng.randrange(2000)}, addr={rng.getrandbits(rng.choice((12, 48))):#x}, "
        f"retCode={rng.choice(CODES)}"
    )


def screen(rng: random.Random, second: int) -> str:
    prefix = rng.choice(("", "[rank3]: ", "(Worker pid=7) ERROR 05-02 10:11:12 [core.py:7] "))
    return prefix + rng.choice(
        (
            f"RuntimeError: f, error code is {rng.choice((107027, 507015, 561002))}",
            f"ValueError: {rng.randrange(10**6)} is no size",
            f"{rng.choice(('EL0004', 'EI0002', 'E40021'))}: text {rng.randrange(99)}",
            f"{rng.randrange(99)} tokens in {rng.random()} s",
            "",
        )
    )


@pytest.mark.parametrize("seed", range(4))
def test_counts_are_those_of_looking_at_every_line(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    if seed % 2:
        monkeypatch.setattr(condense, "_MOST_SHAPES", 7)  # forgets all the time
        monkeypatch.setattr("ascend_infer.diagnose.reader._BLOCK", 777)
    lines = [rng.choice((plog, screen))(rng, number // 60) for number in range(3000)]
    expected: Counter[tuple[str, str]] = Counter()
    for line in lines:
        error = parse_error(split_prefix(line)[1])
        if error is not None:
            expected[error.explanation.key, error.place] += 1
    log = tmp_path / "a.log"
    log.write_text("\n".join(lines))
    groups = diagnose_logs([str(log)]).groups
    assert {(g.explanation.key, g.place): g.count for g in groups} == dict(expected)
    for group in groups:
        number = int(group.where.rsplit(":", 1)[1])
        assert group.text[:40] in lines[number - 1]


def test_several_processes_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    monkeypatch.setattr("ascend_infer.diagnose.reader._BLOCK", 3000)
    lines = [rng.choice((plog, screen))(rng, number // 60) for number in range(3000)]
    lines += ["Traceback (most recent call last):", '  File "/srv/a.py", line 3, in f', "x" * 9000]
    log = tmp_path / "a.log"
    log.write_text("\n".join([*lines, "KeyError: 3", *lines[:40]]))
    alone = diagnose_logs([str(log), str(log)]).to_dict()
    monkeypatch.setattr("ascend_infer.diagnose.workers._ALONE", 5)
    assert diagnose_logs([str(log), str(log)], workers=2).to_dict() == alone


def test_without_further_processes_it_is_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ascend_infer.diagnose.reader._BLOCK", 100)
    monkeypatch.setattr("ascend_infer.diagnose.workers._ALONE", 2)
    log = tmp_path / "a.log"
    log.write_text("ValueError: x\n" * 99)
    for failing in ("_condense", "ProcessPoolExecutor"):
        with monkeypatch.context() as patch:
            patch.setattr(f"ascend_infer.diagnose.workers.{failing}", Failing())
            (group,) = diagnose_logs([str(log)], workers=2).groups
            assert group.count == 99


class Failing:
    """Ends the process in which it is called as a worker; cannot be started as a pool."""

    def __call__(self, *arguments: object, **options: object) -> None:
        if len(arguments) == 1 and not isinstance(arguments[0], bytes):
            raise OSError("no process")
        os._exit(3)


@pytest.mark.parametrize("block", [1 << 20, 999])
def test_errors_of_further_kinds_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("ascend_infer.diagnose.groups._MOST_GROUPS", 3)
    monkeypatch.setattr("ascend_infer.diagnose.reader._BLOCK", block)
    rng = random.Random(9)
    lines = [rng.choice((plog, screen))(rng, number // 60) for number in range(3000)]
    errors = sum(parse_error(split_prefix(line)[1]) is not None for line in lines)
    log = tmp_path / "a.log"
    log.write_text("\n".join(lines))
    diagnosis = diagnose_logs([str(log)])
    assert len(diagnosis.groups) == 3 and diagnosis.dropped > errors / 2
    assert sum(group.count for group in diagnosis.groups) + diagnosis.dropped == errors


def test_the_earliest_of_a_kind_is_shown_though_it_comes_later(tmp_path: Path) -> None:
    """As where the logs of two ranks were appended to each other."""
    line = "[ERROR] RUNTIME(1,):2026-03-10-16:49:{}.543.228 [a.cc:1]7 f:retCode=507015\n"
    log = tmp_path / "a.log"
    log.write_text("".join(line.format(second) for second in (30, 31, 32, 10, 11, 40)))
    (group,) = diagnose_logs([str(log)]).groups
    assert (group.where, group.count) == (f"{log}:4", 6)


def logs(tmp_path: Path, **files: str) -> str:
    for name, text in files.items():
        (tmp_path / f"{name}.log").write_text(text)
    found = diagnose_logs([str(tmp_path)]).cause
    assert found is not None
    return found.explanation.key


PLOG = "[ERROR] RUNTIME(1,):2026-03-10-16:49:{:02}.543.228 [a.cc:1]7 f:retCode={}\n"
SCREEN = "RuntimeError: f, error code is {}\n"


def test_an_unknown_exception_that_was_first_is_the_cause(tmp_path: Path) -> None:
    assert logs(tmp_path, a="ValueError: x\n" + SCREEN.format(507015)) == "ValueError"


def test_an_unknown_exception_that_came_later_is_not(tmp_path: Path) -> None:
    assert logs(tmp_path, a=SCREEN.format(507015) + "ValueError: x\n") == "507015"


def test_what_the_text_of_an_exception_explains_is_not_unknown(tmp_path: Path) -> None:
    text = "RuntimeError: call failed\n[PID: 9] Memory_Allocation_Failure(EL0004): no memory\n"
    assert logs(tmp_path, a=text) == "EL0004"
    apart = "RuntimeError: call failed\nIndexError: y\nEL0004: no memory\n"
    assert logs(tmp_path, a=apart) == "RuntimeError"


def test_a_follower_never_wins_though_its_own_log_shows_nothing_before_it(tmp_path: Path) -> None:
    """The runtime's log has the end of the capture only, the screen what was raised inside it."""
    screen = "KeyError: 'k'\n" + SCREEN.format(107025)
    assert logs(tmp_path, plog=PLOG.format(3, 107025), screen=screen) == "KeyError"
    assert (
        logs(tmp_path / "", plog=PLOG.format(3, 107025), screen=SCREEN.format(107025)) == "107025"
    )


def test_what_comes_before_the_first_time_of_a_log_is_not_after_it(tmp_path: Path) -> None:
    screen = "ValueError: x\n[ERROR] 2026-03-10-16:49:20 (PID:4, Device:0) ERR00100 PTA\n"
    assert logs(tmp_path, plog=PLOG.format(40, 507015), screen=screen) == "ValueError"
    assert logs(tmp_path, plog=PLOG.format(10, 507015), screen=screen) == "507015"


@pytest.mark.parametrize(
    "line",
    [
        "EL0009: Failed to allocate",
        "[rank1]: EZ3002: [PID: 3] Op type is not supported",
        "[PID: 3] Insufficient_Stream_Resources(EL0009): streams",
        "Exception: nothing else",
        "subprocess.TimeoutExpired: Command timed out",
        "[CRITICAL] DRV(1,):2026-03-10-16:49:31.543.228 [a.cc:1]7 device lost",
        "A task group is not closed before the capture ends",
        "Segmentation fault (core dumped)",
        "No streams is bound to the capture model, model_id=3",
        "E40021: Failed to compile Op",
    ],
)
def test_lines_that_do_not_say_error(tmp_path: Path, line: str) -> None:
    assert logs(tmp_path, a=f"one\n{line}\ntwo\n")


@pytest.mark.parametrize(
    ("damaged", "whole"),
    [
        ("RUNTIME(\x01x):2026-03-10-16:49:31.543.228", "RUNTIME(1,):2026-03-10-16:49:31.543.228"),
        ("RUNTIME(1,):20xx-03-10-16:49:31.543.228", "RUNTIME(1,):2026-03-10-16:49:31.543.228"),
    ],
)
def test_a_damaged_line_does_not_silence_those_after_it(
    tmp_path: Path, damaged: str, whole: str
) -> None:
    log = tmp_path / "a.log"
    lines = [f"[ERROR] {head} [a.cc:1]7 f:failed" for head in (damaged, whole, whole)]
    prefix = "ERROR 11-20 09:12:07 [a.py:1"
    lines += [f"{prefix}. EE9999: cut]", f"{prefix}] EE9999: x", f"{prefix}] EE9999: y"]
    log.write_text("\n".join(lines))
    counts = {g.explanation.key: g.count for g in diagnose_logs([str(log)]).groups}
    assert counts == {"RUNTIME": 2, "EE9999": 2}
