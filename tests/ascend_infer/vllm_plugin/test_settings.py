"""Nothing is replaced unless it is asked for, and a wrong switch is an error that names it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ascend_infer.vllm_plugin.settings import (
    OPS,
    OPS_VARIABLE,
    REFUSAL_VARIABLE,
    OnRefusal,
    Settings,
    from_config,
    from_environment,
)
from kernels_npu.errors import UsageError


def config(given: object) -> Any:
    return SimpleNamespace(additional_config={"ascend_infer": given, "other": 1})


def test_the_default_is_off() -> None:
    assert from_environment({}) is None
    for without in (SimpleNamespace(), SimpleNamespace(additional_config=None), config(None)):
        assert from_config(without) == Settings()


@pytest.mark.parametrize(
    ("value", "ops"),
    [
        ("", set()),
        ("off", set()),
        ("none", set()),
        ("all", set(OPS)),
        ("rms_norm", {"rms_norm"}),
        (" attention , rms_norm", {"attention", "rms_norm"}),
    ],
)
def test_the_environment_names_operators(value: str, ops: set[str]) -> None:
    settings = from_environment({OPS_VARIABLE: value, REFUSAL_VARIABLE: "stop"})
    assert settings == Settings(ops=frozenset(ops), on_refusal=OnRefusal.STOP, source="environment")


@pytest.mark.parametrize("ops", ["off", "", "none", ["off"], []])
def test_a_configuration_can_say_off(ops: object) -> None:
    assert from_config(config({"ops": ops}), {}).ops == frozenset()


@pytest.mark.parametrize("said", [{}, {"on_refusal": "host"}])
def test_the_environments_refusal_wins_over_the_configurations(said: dict[str, str]) -> None:
    settings = from_config(config({"ops": "all", **said}), {REFUSAL_VARIABLE: "stop"})
    assert settings.on_refusal is OnRefusal.STOP and settings.source == "additional_config"
    with pytest.raises(UsageError, match="ASCEND_INFER_VLLM_ON_REFUSAL is 'never'"):
        from_config(config({"ops": "all", **said}), {REFUSAL_VARIABLE: "never"})


@pytest.mark.parametrize("ops", ["all", ["all"], list(OPS), ",".join(OPS)])
def test_a_configuration_names_operators(ops: object) -> None:
    settings = from_config(config({"ops": ops, "on_refusal": "host"}))
    assert settings == Settings(ops=frozenset(OPS), source="additional_config")


@pytest.mark.parametrize(
    "environment",
    [
        {OPS_VARIABLE: "rmsnorm"},
        {OPS_VARIABLE: "all,x"},
        {OPS_VARIABLE: "rms_norm,,attention"},
        {OPS_VARIABLE: "all", REFUSAL_VARIABLE: "ignore"},
    ],
)
def test_a_wrong_variable_is_named(environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="AI-VLLM-001: ASCEND_INFER_VLLM_O"):
        from_environment(environment)


@pytest.mark.parametrize(
    "given",
    ["all", 3, [], {"op": ["all"]}, {"ops": 3}, {"ops": [3]}, {"ops": ["x"]}]
    + [{"ops": "all", "on_refusal": value} for value in ("x", None, ["stop"], {})],
)
def test_a_wrong_configuration_is_named(given: object) -> None:
    with pytest.raises(UsageError, match=r"AI-VLLM-001: additional_config\['ascend_infer'\]"):
        from_config(config(given))
