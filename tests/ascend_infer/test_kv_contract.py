"""A hand-over is refused for every fact in which two engines differ."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_infer.kv_contract import KVContract, check, mismatches
from kernels_npu.errors import UsageError

PLAIN = KVContract(
    model="qwen2.5-7b@main",
    layers=28,
    kv_heads=4,
    head_dim=128,
    value_head_dim=128,
    block_size=128,
    dtype="bfloat16",
)
OTHER = {
    "model": "qwen2.5-7b@other",
    "layers": 27,
    "kv_heads": 8,
    "head_dim": 64,
    "value_head_dim": 64,
    "block_size": 16,
    "dtype": "float16",
    "layout": "HND",
    "tensor_parallel": 2,
    "rotary": "none",
    "sliding_window": 4096,
}


def test_equal_engines_agree() -> None:
    check(PLAIN, KVContract.from_json(PLAIN.to_json()))
    assert PLAIN.block_bytes == 28 * 128 * 4 * 256 * 2
    assert dataclasses.replace(PLAIN, tensor_parallel=8).kv_heads_per_rank == 1


@pytest.mark.parametrize("field", OTHER)
def test_each_fact_matters(field: str) -> None:
    other = dataclasses.replace(PLAIN, **{field: OTHER[field]})
    (found,) = mismatches(PLAIN, other)
    assert (found.field, found.consumer) == (field, OTHER[field])
    with pytest.raises(UsageError, match=f"AI-VLLM-004: .*{field}: .* is written, .* is read"):
        check(PLAIN, other)


def test_scales_are_facts() -> None:
    scaled = dataclasses.replace(
        PLAIN, dtype="int8", scale_format="per_head", scale_dtype="float32"
    )
    assert {m.field for m in mismatches(PLAIN, scaled)} == {"dtype", "scale_format", "scale_dtype"}
    for wrong in ({"scale_format": "per_head"}, {"scale_dtype": "float32"}):
        with pytest.raises(UsageError, match=r"AI-VLLM-003.*scale_dtype"):
            dataclasses.replace(PLAIN, **wrong)


@pytest.mark.parametrize(
    ("field", "value"),
    [("layers", 0), ("kv_heads", -1), ("head_dim", 1.5), ("block_size", "128"), ("layers", True)]
    + [("dtype", "half"), ("layout", "nhd"), ("scale_format", ""), ("rotary", None)]
    + [("model", ""), ("model", 3), ("sliding_window", -1), ("version", 2), ("dtype", ["int8"])],
)
def test_facts_that_no_cache_has(field: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"AI-VLLM-003: KV contract: {field} is"):
        dataclasses.replace(PLAIN, **{field: value})


@given(
    st.one_of(
        st.text(max_size=40),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
            ),
        ).map(json.dumps),
        st.sampled_from(sorted(dataclasses.asdict(PLAIN))).map(
            lambda name: json.dumps(
                {k: v for k, v in dataclasses.asdict(PLAIN).items() if k != name}
            )
        ),
        st.just(json.dumps({**dataclasses.asdict(PLAIN), "more": 1})),
    )
)
def test_other_records_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="AI-VLLM-003"):
        KVContract.from_json(text)


def test_the_command_compares_two_records(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    from ascend_infer.cli import main

    for name, record in (("a", PLAIN), ("b", dataclasses.replace(PLAIN, block_size=64))):
        (tmp_path / f"{name}.json").write_text(record.to_json())
    a, b = str(tmp_path / "a.json"), str(tmp_path / "b.json")
    assert main(["vllm", "kv-check", a, a]) == 0
    assert "agree; 7,340,032 bytes" in capsys.readouterr().out
    assert main(["vllm", "kv-check", "--json", a, b]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["mismatches"] == [{"field": "block_size", "producer": 128, "consumer": 64}]
    (tmp_path / "b.json").write_bytes(b"\xff\xfe")
    assert main(["vllm", "kv-check", a, b]) == 2
    assert main(["vllm", "kv-check", a, str(tmp_path)]) == 2
