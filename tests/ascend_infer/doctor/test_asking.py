"""Child processes that hang, crash or babble are answers, too."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ascend_infer.doctor import asking
from ascend_infer.doctor.asking import PROBES, ask, run
from ascend_infer.doctor.probes.__main__ import sections
from ascend_infer.doctor.probes.causes import cause


@pytest.mark.parametrize(
    "program, words",
    [
        ("raise ValueError('wrong')", "ValueError: wrong"),
        ("import os; os.abort()", "signal 6"),
        ("import os; os._exit(3)", "exit code 3"),
        ("import sys; sys.stderr.buffer.write(b'\\xff\\xfe\\n'); sys.exit(1)", "\ufffd"),
    ],
)
def test_failures(program: str, words: str):
    output, failure = run([sys.executable, "-c", program], timeout_s=30)
    assert words in failure and output == ""


def test_success():
    assert run(["echo", "yes"], timeout_s=30) == ("yes\n", "")


@pytest.mark.parametrize("command", [["/nowhere/npu-smi"], [os.path.dirname(__file__)]])
def test_commands_that_cannot_be_started(command: list[str]):
    assert "cannot be started" in run(command, timeout_s=30)[1]


def test_a_hang_ends_with_all_that_was_started(tmp_path: Path):
    """Also a grandchild that keeps the output open, and ignores being asked to end."""
    mark = tmp_path / "pid"
    script = f"trap '' TERM; (trap '' TERM; echo $BASHPID > {mark}; sleep 60) & echo early; wait"
    start = time.monotonic()
    output, failure = run(["bash", "-c", script], timeout_s=0.7)
    assert time.monotonic() - start < 20
    assert failure == "no answer within 0.7 s" and output in ("early\n", "")
    grandchild = int(mark.read_text())
    for _ in range(100):
        state = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(grandchild)],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()
        if not state or state.startswith("Z"):
            return
        time.sleep(0.05)
    pytest.fail("the grandchild lives on")


def test_answers_that_came_before_the_end_are_kept(monkeypatch: pytest.MonkeyPatch):
    said = '{"section": "devices", "values": {"pci": 3}, "failure": ""}'
    lines = f"noise\n{asking.MARK}{said}\n{asking.MARK}not json\n{asking.MARK}[1]\n"
    monkeypatch.setattr(asking, "run", lambda *_, **__: (lines, "no answer within 5 s"))
    host = next(probe for probe in PROBES if probe.name == "host")
    answers = ask(host, timeout_s=5)
    assert answers["devices"].values == {"pci": 3} and not answers["devices"].failure
    assert {answers[name].failure for name in host.sections[1:]} == {"no answer within 5 s"}


def test_an_end_without_an_answer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asking, "run", lambda *_, **__: ("", ""))
    assert ask(PROBES[0], timeout_s=5)["torch"].failure == "the probe ended without an answer"


def test_each_section_is_known_to_both_sides():
    assert {p.name: p.sections for p in PROBES} == {
        p.name: tuple(sections(p.name, 5)) for p in PROBES
    }


def test_what_follows_from_a_failed_import_is_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "torch.py").write_text("print('noise', end='')\nraise ImportError('libtorch.so')")
    monkeypatch.syspath_prepend(str(tmp_path))
    answers = ask(PROBES[0], timeout_s=60)
    assert answers["torch"].failure == "ImportError: libtorch.so"
    assert answers["simulator"].failure == "not asked, because torch failed"


def _raise_from_import(error: Exception) -> None:
    try:
        raise ImportError("libhccl.so: no such file\nsecond line")
    except ImportError as root:
        if isinstance(error, RuntimeError):
            raise error from root
        raise error from None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            RuntimeError("Failed to load the backend extension"),
            "ImportError: libhccl.so: no such file "
            "(reported as RuntimeError: Failed to load the backend extension)",
        ),
        (ValueError(), "ValueError"),
    ],
)
def test_the_root_of_a_chain_of_exceptions(error: Exception, expected: str):
    with pytest.raises(type(error)) as caught:
        _raise_from_import(error)
    assert cause(caught.value) == expected
