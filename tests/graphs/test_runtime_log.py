from __future__ import annotations

from pathlib import Path

import pytest

from graphs.runtime_log import counts_replays, log_folder, replays_in_log

LOGGING = {"ASCEND_GLOBAL_LOG_LEVEL": "1", "ASCEND_LOG_SYNC_SAVE": "1"}
LINE = (
    "[INFO] RUNTIME(77,python3):2026-03-10-16:49:18.543.228 [capture_model.cc:812]77 Execute:"
    "capture model execute, model_id={}!\n"
)
OTHER = (
    "[INFO] RUNTIME(77,python3):2026-03-10-16:49:18.543.228 [context_aclgraph.cc:90]77 "
    "StreamEndCapture: capture end success, device_id=0, original stream_id=3.\n"
)


def write(folder: Path, name: str, *lines: str) -> None:
    plog = folder / "debug" / "plog"
    plog.mkdir(parents=True, exist_ok=True)
    (plog / name).write_text("".join(lines), encoding="utf-8")


def test_executions_are_counted_over_the_files_of_one_process(tmp_path: Path) -> None:
    environment = {**LOGGING, "ASCEND_PROCESS_LOG_PATH": str(tmp_path)}
    assert replays_in_log(77, environment) == 0
    write(tmp_path, "plog-77_20260310164918543.log", LINE.format(1), OTHER, LINE.format(2))
    write(tmp_path, "plog-77_20260310164919543.log", LINE.format(1))
    write(tmp_path, "plog-7_20260310164919543.log", LINE.format(1))
    write(tmp_path, "plog-770_20260310164919543.log", LINE.format(1))
    assert replays_in_log(77, environment) == 3


@pytest.mark.parametrize(
    "change, counts",
    [
        ({}, True),
        ({"ASCEND_GLOBAL_LOG_LEVEL": "0"}, True),
        ({"ASCEND_GLOBAL_LOG_LEVEL": "3"}, False),
        ({"ASCEND_LOG_SYNC_SAVE": "0"}, False),
        ({"ASCEND_SLOG_PRINT_TO_STDOUT": "1"}, False),
        ({"ASCEND_LOG_PRINT_TO_STDOUT": "1"}, False),
        ({"ASCEND_MODULE_LOG_LEVEL": "GE=0:RUNTIME=3"}, False),
        ({"ASCEND_GLOBAL_LOG_LEVEL": "3", "ASCEND_MODULE_LOG_LEVEL": "RUNTIME=1"}, True),
    ],
)
def test_only_a_complete_log_counts(change: dict[str, str], counts: bool, tmp_path: Path) -> None:
    environment = {**LOGGING, "ASCEND_PROCESS_LOG_PATH": str(tmp_path), **change}
    assert counts_replays(environment) is counts
    assert (replays_in_log(1, environment) is not None) is counts


def test_without_settings_nothing_is_counted() -> None:
    assert replays_in_log(1, {}) is None


def test_the_folder_is_looked_for_as_the_runtime_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/someone")
    both = {"ASCEND_PROCESS_LOG_PATH": "/logs", "ASCEND_WORK_PATH": "/elsewhere"}
    assert log_folder(both) == Path("/logs")
    assert log_folder({"ASCEND_WORK_PATH": "/elsewhere"}) == Path("/elsewhere/log")
    assert log_folder({}) == Path("/someone/ascend/log")
