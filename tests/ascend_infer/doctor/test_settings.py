"""Environment variables that break or slow something."""

from __future__ import annotations

import pytest

from ascend_infer.doctor.settings import SETTINGS
from graphs.environment import ENVIRONMENT
from tests.ascend_infer.doctor.answers import HEALTHY, HOST, VARIABLES, diagnosis, found


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("ASCEND_LAUNCH_BLOCKING", "1", "captures fail"),
        ("TASK_QUEUE_ENABLE", "2", "captures fail"),
        ("PER_STREAM_QUEUE", "1", "experimental"),
        ("STREAMS_PER_DEVICE", "16", "8 or 32"),
        ("ASCEND_RT_VISIBLE_DEVICES", "0,1", "profiling"),
        ("ASCEND_RT_VISIBLE_DEVICES", "1,0", "stops at the first id"),
        ("ASCEND_RT_VISIBLE_DEVICES", "0,0", "stops at the first id"),
        ("ASCEND_RT_VISIBLE_DEVICES", "", "stops at the first id"),
        ("ASCEND_RT_VISIBLE_DEVICES", "0,npu1", "stops at the first id"),
        ("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", "does not load torch_npu"),
        ("TVM_FFI_SKIP_DLPACK_C_EXCHANGE_API", "1", "null stream"),
        ("ACL_OP_INIT_MODE", "0", "TVM"),
        ("ASCEND_GLOBAL_LOG_LEVEL", "0", "slows"),
        ("ASCEND_SLOG_PRINT_TO_STDOUT", "1", "no log files"),
    ],
)
def test_a_bad_value(variable: str, value: str, words: str):
    sick = diagnosis(HOST, environment={**VARIABLES, variable: value})
    finding = found(sick)[f"environment variables: {variable}"]
    assert finding.verdict == "warning" and f"{variable}={value}" in finding.evidence
    assert words in finding.evidence and finding.advice
    assert sick.passed


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ASCEND_LAUNCH_BLOCKING", "0"),
        ("TASK_QUEUE_ENABLE", "1"),
        ("PER_STREAM_QUEUE", "0"),
        ("STREAMS_PER_DEVICE", "32"),
        ("TORCH_DEVICE_BACKEND_AUTOLOAD", "1"),
        ("ASCEND_GLOBAL_LOG_LEVEL", "3"),
    ],
)
def test_a_good_value(variable: str, value: str):
    healthy = diagnosis(HOST, environment={**VARIABLES, variable: value})
    assert found(healthy)["environment variables"].verdict == "ok"


def test_what_needs_an_installation_is_not_said_without_it():
    environment = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "ACL_OP_INIT_MODE": "0"}
    assert found(diagnosis(HEALTHY, environment))["environment variables"].verdict == "ok"
    unset = found(diagnosis(HOST, environment={}))
    assert "is not set" in unset["environment variables: ACL_OP_INIT_MODE"].evidence


@pytest.mark.parametrize(("value", "bad"), [("lora", True), ("", True), ("lora,ascend", False)])
def test_plugins_of_vllm(value: str, bad: bool):
    serving = diagnosis(HOST, {**VARIABLES, "VLLM_PLUGINS": value}, versions={"vllm-ascend": "1"})
    assert ("environment variables: VLLM_PLUGINS" in found(serving)) is bad


def test_what_stops_a_capture_is_said_before_one_is_tried():
    assert {rule.variable for rule in ENVIRONMENT} <= {s.variable for s in SETTINGS}
