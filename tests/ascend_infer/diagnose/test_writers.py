"""What stands around an error: prefixes of launchers and containers, what is only reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_infer.diagnose import LogDiagnosis, diagnose_logs

TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/srv/load.py", line 9, in go\n'
    "    table[bucket]\n"
    "KeyError: 48\n"
)


def read(tmp_path: Path, text: str) -> LogDiagnosis:
    log = tmp_path / "a.log"
    log.write_text(text)
    return diagnose_logs([str(log)])


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "[rank3]: ",
        "(RayWorkerWrapper pid=4711, ip=10.0.0.1) ",
        "(EngineCore_DP0 pid=9) ERROR 11-20 09:12:0{} [core.py:708] ",
        "\x1b[1;36m(EngineCore_DP0 pid=9)\x1b[0;0m ",
        "2026-11-20T09:12:0{}.123456789Z stderr F ",
        "2026-11-20T09:12:0{}.123+08:00 ",
        "Nov 20 09:12:0{} node7 vllm[123]: ",
        "vllm-1  | ",
        "[1,0]<stderr>:",
        "2026-11-20 09:12:0{},123 - root - ERROR - ",
        "2026-11-20 09:12:0{}.123 | ERROR    | app.main:go:12 - ",
        "[2026-11-20 09:12:0{},123] [ERROR] [a.py:3:go] ",
        "ERROR:root:",
        "  | ",
    ],
)
def test_a_traceback_behind_a_prefix(tmp_path: Path, prefix: str) -> None:
    lines = TRACEBACK.splitlines()
    text = "".join(prefix.format(second) + line + "\n" for second, line in enumerate(lines))
    (group,) = read(tmp_path, text).groups
    assert (group.explanation.key, group.frame) == ("KeyError", "/srv/load.py:9")


def test_lines_of_a_level_below_a_warning_report_nothing(tmp_path: Path) -> None:
    for head in ("INFO 11-20 09:12:04 [a.py:1] ", "INFO: ", "2026-11-20 09:12:04 - app - INFO - "):
        text = f"{head}again after EE1001: x\n{head}error code is 507015\n"
        assert not read(tmp_path, text).groups
        assert len(read(tmp_path, text.replace("INFO", "ERROR")).groups) == 2


@pytest.mark.parametrize("later", ["", "AttributeError: the same kind\n"])
def test_an_exception_that_the_interpreter_ignores_is_no_cause(tmp_path: Path, later: str) -> None:
    ignored = "Exception ignored in: <function Graph.__del__ at 0x7f00>\n" + TRACEBACK.replace(
        "KeyError: 48", "AttributeError: no reset"
    )
    found = read(tmp_path, ignored + TRACEBACK + later)
    assert found.cause is not None
    assert found.cause.explanation.key == ("AttributeError" if later else "KeyError")
    assert read(tmp_path, ignored).cause is not None  # of nothing else it is all that there is


def test_frames_below_the_end_of_the_interpreter(tmp_path: Path) -> None:
    text = (
        "Fatal Python error: Segmentation fault\n\n"
        "Current thread 0x0000fffd9f7ff120 (most recent call first):\n"
        '  File "/opt/lib/python3.11/site-packages/torch/x.py", line 1 in run\n'
        '  File "/srv/launch.py", line 70 in launch\n'
        '  File "/srv/main.py", line 3 in <module>\n'
    )
    cause = read(tmp_path, text).cause
    assert cause is not None and cause.explanation.key == "process-ended"
    assert cause.frame == "/srv/launch.py:70"


def test_an_exception_group_is_its_exceptions(tmp_path: Path) -> None:
    text = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/srv/eg.py", line 9, in <module>\n'
        "  | ExceptionGroup: workers (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "/srv/eg.py", line 4, in part\n'
        "    | ZeroDivisionError: division by zero\n"
    )
    cause = read(tmp_path, text).cause
    assert cause is not None
    assert (cause.explanation.key, cause.frame) == ("ZeroDivisionError", "/srv/eg.py:4")


@pytest.mark.parametrize("key", ["queue.Empty", "zmq.error.Again", "httpx.ConnectTimeout"])
def test_exceptions_of_other_names(tmp_path: Path, key: str) -> None:
    cause = read(tmp_path, TRACEBACK.replace("KeyError", key)).cause
    assert cause is not None and cause.explanation.key == key


def test_a_second_does_not_turn_the_order_of_one_log(tmp_path: Path) -> None:
    text = (
        "[W1126 12:00:11.2 x.ts:57] Warning: EI0006: [PID: 7] 2025-11-26-12:00:11.200.001 late\n"
        "[ERROR] HCCL(7,python):2025-11-26-12:00:11.199.001 [socket.cc:540][801]wait: timeout\n"
        "RuntimeError: HcclCommInitRootInfoConfig failed, error code is 4\n"
    )
    cause = read(tmp_path, text).cause
    assert cause is not None and cause.explanation.key == "EI0006"


def test_a_follower_that_comes_first_stays_a_cause_when_it_comes_again(tmp_path: Path) -> None:
    first = "RuntimeError: capture_end, error code is 107025\n"
    plog = "[ERROR] RUNTIME(7,p):2026-01-01-00:00:0{}.000.000 [a.cc:{}]7 f:ErrCode={}\n"
    text = plog.format(1, 1, 107025) + plog.format(2, 2, 507015) + plog.format(3, 3, 107025)
    for log in (text, first + text):
        cause = read(tmp_path, log).cause
        assert cause is not None and cause.explanation.key == "107025"
