"""The first cause of realistic excerpts; damaged, large and unreadable logs."""

from __future__ import annotations

import gzip
import json
import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascend_infer.cli import main
from ascend_infer.diagnose import diagnose_logs
from kernels_npu.errors import UsageError


def plog(text: str, *, level: str = "ERROR", second: int = 31, place: str = "stream.cc:40") -> str:
    return (
        f"[{level}] RUNTIME(107027,VLLM::Worker_TP1):2026-03-10-16:49:{second:02}.543.228 "
        f"[{place}]107025 {text}"
    )


def api(call: str, code: int) -> str:
    return f"RuntimeError: {call}: NPU function error: {call}, error code is {code}"


WRAPPER = (
    "[ERROR] 2026-06-04-10:17:18 (PID:46706, Device:0, RankID:-1) ERR00100 PTA call acl api failed"
)
INNER = "EE9999: Inner Error!"
REFUSED = "EE9999: rtMemcpy execute failed, the current capture mode does not support it, error"
EXCERPTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("107027", (api("aclrtSynchronizeStream", 107027), WRAPPER, INNER)),
    ("107027", (api("aclrtSynchronizeStream", 107027), api("AclmdlRICaptureEnd", 507903))),
    ("107030", (plog("MemcpySync:ErrCode=107030, desc=[capture mode]"), plog("ErrCode=507903"))),
    ("107025", (api("AclmdlRICaptureEnd", 107025), api("AclmdlRICaptureEnd", 107029))),
    ("107033", (api("AclmdlRICaptureEnd", 107033), "Capture cuda graph failed, error")),
    ("streams-exhausted", (plog("New capture stream failed, stream_id=1987"),
                           plog("Capture wait event failed."), plog("x, retCode=207005"))),
    ("207005", (api("aclrtStreamWaitEvent", 207005), WRAPPER)),
    ("207008", (api("AclmdlRICaptureBegin", 207008), "[PID: 9] ts Title(EL0009): streams")),
    ("EL0009", (INNER, "[PID: 9] ts Title(EL0009): Failed to allocate")),
    ("streams-exhausted", (plog("AllocStreamSqCq:[SqCqManage]Alloc sq cq fail, stream_id=1984, "
                                "retCode=0x7020023."), api("AclmdlRICaptureBegin", 207005))),
    ("aclop-in-capture", ("RuntimeError: Cannot run aclop operators during NPU graph capture. "
                          "Current working aclop is Fill.",)),
    ("aclop-in-capture", ("RuntimeError: Cannot run aclop operators during NPU graph capture. "
                          "Current working aclop is Identity.", api("AclmdlRICaptureEnd", 107025))),
    ("507015", (plog("mte ddr address out of range, error code is 507015"), plog("ret=507011"))),
    ("507015", (plog("ModelExecute failed, retCode=507011", second=30), plog("ErrCode=507015"))),
    ("507011", (api("aclrtSynchronizeStream", 507011),)),
    ("ValueError", ('  File "/srv/model.py", line 7, in f', "ValueError: bad", REFUSED)),
    ("generator-in-capture", ("RuntimeError: Not support Generator while in capture mode",)),
    ("task-queue-2", ("RuntimeError: Do not support TASK_QUEUE_ENABLE = 2 during NPU graph "
                      "capture, please export TASK_QUEUE_ENABLE=1/0.",)),
    ("launch-blocking", ("ValueError: ACL graph is incompatible with ASCEND_LAUNCH_BLOCKING=1",)),
    ("207000", (api("aclmdlRICaptureGetInfo", 207000),)),
    ("profiler-in-capture", (plog("AllocTask:Unsupported task type"), api("x", 107030))),
    ("default-stream", ("RuntimeError: NPU graphs must be captured on a non-default stream.",)),
    ("KeyError", ("KeyError: 'k'", "During handling of the above exception, another exception "
                  "occurred:", api("AclmdlRICaptureEnd", 107025))),
    ("107002", (plog("GetContext: ErrCode=107002"), WRAPPER)),
    ("107041", (plog("MemcpyAsync failed, ErrCode=107041"), plog("ErrCode=107029"))),
    ("EZ1001", (WRAPPER, "EZ1001: error: dtype of x is not supported")),
    ("207018", (api("aclrtMallocPhysical", 207018), INNER)),
    ("507035", (plog("vector core exception, ErrCode=507035"), api("x", 507899))),
    ("graph-reused", ("RuntimeError: This NPUGraph instance already owns a captured graph.",)),
    ("external-stream", ("RuntimeError: External NPU stream is not supported in "
                         "NPUGraph::capture_begin.", api("AclmdlRICaptureEnd", 107029))),
    ("EI0002", (WRAPPER, "EI0002: connection error between ranks")),
)  # fmt: skip


@pytest.mark.parametrize("cause, lines", EXCERPTS)
def test_the_first_cause(tmp_path: Path, cause: str, lines: tuple[str, ...]) -> None:
    log = tmp_path / "a.log"
    noise = plog("ErrCode=507015 in an information", level="INFO", second=1)
    log.write_text("\n".join((noise, *lines)), encoding="utf-8")  # the last line has no end
    found = diagnose_logs([str(log)]).cause
    assert found is not None and found.explanation.key == cause
    assert found.where.startswith(f"{log}:")
    assert found.text in lines[int(found.where.rsplit(":", 1)[1]) - 2]


def test_the_earliest_file_counts_not_the_first_name(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(plog("ErrCode=507015", second=40) + "\n")
    (tmp_path / "b.log").write_text(plog("ErrCode=207008", second=20) + "\n")
    found = diagnose_logs([str(tmp_path)]).cause
    assert found is not None and found.explanation.key == "207008"


def test_a_clean_log_has_no_cause_and_its_captures_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    for model in range(3):
        streams = f"original stream_id=3, capture stream_id={model + 8}"
        lines += [
            plog(f"StreamBeginCapture: capture begin success, device_id=0, model_id={model}, "
                 f"{streams}, stream_status=active.", level="EVENT"),
            plog(f"StreamEndCapture: capture end success, device_id=0, {streams}, "
                 f"capture model_id={model}.", level="INFO"),
            *[plog(f"Execute:capture model execute, model_id={model}!", level="INFO")] * 5,
        ]  # fmt: skip
    with gzip.open(tmp_path / "plog-1.log.gz", "wt") as log:
        log.write("\n".join(lines))
    assert main(["diagnose", "--json", "--expect-captures", "3", str(tmp_path)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["cause"] is None
    assert report["captures"] == {
        "begun": 3, "ended": 3, "executed": 15, "model_ids": [0, 1, 2],
        "streams": ["0:8", "0:9", "0:10"],
    }  # fmt: skip
    assert main(["diagnose", "--expect-captures", "4", str(tmp_path)]) == 1
    assert "the log shows 3" in capsys.readouterr().out


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(junk=st.binary(max_size=300), cut=st.integers(0, 400))
def test_damaged_lines_never_raise(tmp_path: Path, junk: bytes, cut: int) -> None:
    good = plog("Alloc sq cq fail, ErrCode=207008").encode()
    log = tmp_path / "a.log"
    log.write_bytes(junk + b"\n" + good + b"\n" + (good + b"ERROR" + junk)[:cut])
    found = diagnose_logs([str(log)])
    assert "streams-exhausted" in [group.explanation.key for group in found.groups]


def test_latin_1_and_a_line_of_megabytes(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(
        b"x" * 3_000_001 + b" ERROR\n" + "Modèle: error code is 507015".encode("latin-1")
    )
    found = diagnose_logs([str(log)]).cause
    assert found is not None and found.where == f"{log}:2"


def test_what_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good.log").write_text(plog("ErrCode=507015"))
    (tmp_path / "bad.log.gz").write_bytes(b"\x1f\x8bnot gzip")
    found = diagnose_logs([str(tmp_path)])
    assert found.files == 1 and "bad.log.gz" in found.unreadable[0] and found.cause
    with pytest.raises(UsageError, match="AI-CLI-004"):
        diagnose_logs([str(tmp_path / "bad.log.gz")])
    with pytest.raises(UsageError, match="AI-CLI-004"):
        diagnose_logs([str(tmp_path / "absent")])

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "good.log")

    monkeypatch.setattr("ascend_infer.diagnose.reader.open", refuse, raising=False)
    with pytest.raises(UsageError, match="Permission denied"):
        diagnose_logs([str(tmp_path)])


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    rng = random.Random(3)
    log = tmp_path / "a.log"
    block = "".join(
        plog(f"AllocTask: task {rng.random()}", level="INFO") + "\n" for _ in range(8000)
    )
    with open(log, "w") as stream:
        for number in range(24):
            stream.write(block + plog("ErrCode=507015", place=f"a.cc:{number}") + "\n")
    tracemalloc.start()
    found = diagnose_logs([str(log)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert log.stat().st_size > 20_000_000 and peak < 8_000_000
    assert len(found.groups) == 24 and found.groups[-1].where == f"{log}:{24 * 8001}"
