"""The stream contract of TVM-FFI kernels with the real tvm-ffi, one process per experiment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tvm_ffi")

ROOT = Path(__file__).resolve().parents[3]
PATCHED = {
    "passed": True,
    "patched": True,
    "probe": "passed",
    "proof": "passed",
    "codes": [],
}


def run(name: str) -> dict[str, Any]:
    """The answer of a program of `programs`."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.kernels_npu.stream.programs", name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_the_patch_makes_launches_follow_and_comes_off_again():
    answer = run("clean")
    failing = {"passed": False, "patched": False, "unpatched": None, "probe": "failed"}
    assert answer["found"] == {
        **failing,
        "proof": "not run",
        "codes": ["AI-STREAM-027", "AI-STREAM-021"],
    }
    assert answer["untouched"]
    assert answer["patched"] == {**PATCHED, "unpatched": "failed"}
    assert answer["again"] == {**PATCHED, "unpatched": None}
    assert answer["second"] == "AI-STREAM-025"
    assert answer["followed"] and answer["captured"] and answer["thread"]
    assert answer["in_capture"] == "AI-STREAM-029"
    assert answer["undone"]
    assert answer["after_undo"] == "AI-STREAM-027"
    assert answer["kept_copy"] == "RuntimeError"
    assert answer["reinstalled"] == {**PATCHED, "unpatched": "failed"}


def test_a_right_table_is_left_alone():
    answer = run("right_table")
    assert answer == {**PATCHED, "patched": False, "unpatched": None, "kept": True}


def test_a_table_that_names_no_stream_is_patched():
    answer = run("old_torch_npu")
    assert answer["found"]["codes"] == ["AI-STREAM-021", "AI-STREAM-021"]
    assert answer["found"]["proof"] == "not run"
    assert answer["ensured"] == {**PATCHED, "unpatched": "failed"}


def test_a_table_that_was_right_once_is_found():
    answer = run("constant_table")
    assert answer["probe"] == "failed"
    assert answer["codes"][0] == "AI-STREAM-021"


def test_a_late_installation_fails_in_its_thread_only():
    answer = run("late_installation")
    assert answer["before"] == 0
    assert (answer["probe"], answer["proof"]) == ("passed", "failed")
    assert answer["codes"] == ["AI-STREAM-022"]
    assert answer["raised"] == answer["call"] == "AI-STREAM-022"
    assert answer["still_wrong"]
    assert answer["fresh_thread"] == {**PATCHED, "unpatched": None}, "the patch stays for others"


def test_a_late_installation_is_named_when_the_kept_table_raises():
    answer = run("late_for_a_table_that_raises")
    assert answer["before"] == "RuntimeError"
    assert (answer["probe"], answer["proof"]) == ("passed", "failed")
    assert answer["codes"] == ["AI-STREAM-022"] and answer["call"] == "AI-STREAM-022"
    assert "RuntimeError: Backend doesn't support" in answer["what"]
    assert answer["fresh_thread"]


def test_weights_are_proved_like_activations():
    answer = run("late_for_weights")
    assert (answer["probe"], answer["proof"]) == ("passed", "failed")
    assert answer["codes"] == ["AI-STREAM-022"]


def test_a_subclass_is_proved_when_a_kernel_is_given_one():
    answer = run("late_for_a_subclass")
    assert answer["before"] == 0
    assert answer["ensured"]["passed"] and answer["others"]
    assert answer["call"] == "AI-STREAM-022"
    assert answer["fresh_thread"]


def test_threads_that_ensure_at_once_do_not_disturb_each_other():
    assert run("threads_together") == {"codes": ["None"]}


def test_an_interruption_is_not_a_verdict():
    answer = run("interrupted")
    assert answer["examined"] == answer["call"] == "KeyboardInterrupt"
    assert answer["afterwards"]["passed"]


def test_a_callback_that_raises_is_loud():
    answer = run("raising_callback")
    assert answer["at_once"]["codes"][0] == "AI-STREAM-027"
    assert not answer["at_once"]["patched"]
    assert answer["right"]
    assert answer["bare_call"] == "SystemError"
    assert answer["call"] == "OSError"


def test_the_variable_that_skips_the_table_is_named():
    answer = run("skipped_table")
    assert (answer["probe"], answer["proof"]) == ("passed", "failed")
    assert answer["codes"] == ["AI-STREAM-023"]


def test_a_table_put_over_the_patch_is_named_and_kept():
    answer = run("replaced_table")
    assert answer["codes"] == ["AI-STREAM-026"]
    assert answer["undo"] == answer["install"] == "AI-STREAM-026"
    assert answer["theirs_stays"]


def test_without_tvm_ffi_only_the_probe_is_made():
    answer = run("without_tvm_ffi")
    assert (answer["probe"], answer["proof"]) == ("passed", "not run")
    assert answer["codes"] == ["AI-STREAM-028"]


def test_a_tvm_ffi_that_does_not_load_is_named():
    answer = run("broken_tvm_ffi")
    assert answer["found"]["codes"] == ["AI-STREAM-027", "AI-STREAM-021"]
    assert answer["right_table"]["codes"] == ["AI-STREAM-028"]


def test_the_current_device_decides_and_call_sets_it():
    answer = run("wrong_device")
    assert answer["bare_call"] == 0
    assert answer["call"] and answer["nested"]
    assert answer["current"] == 0
    assert answer["report"]["codes"] == ["AI-STREAM-024"]
    for refused in ("mixed", "mixed_nested", "none", "meta"):
        assert answer[refused] == "AI-STREAM-013"


def test_ten_thousand_launches_leak_nothing():
    answer = run("many_launches")
    assert answer["call"]["references"] == 0
    assert answer["call"]["objects"] < 100
    assert answer["call"]["kib"] < 256
    assert answer["keeping"]["kib"] > 1024
