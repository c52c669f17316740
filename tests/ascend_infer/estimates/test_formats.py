"""Bytes of stored numbers, scales and zero points."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_infer.estimates import FORMATS, Precision, get_format, load_decoder
from ascend_infer.estimates.models import Matrix
from kernels_npu.errors import UsageError


@given(
    st.sampled_from(sorted(FORMATS)),
    st.integers(1, 9),
    st.integers(1, 300),
    st.one_of(st.none(), st.integers(0, 64)),
    st.sampled_from([None, 8, 16, 32]),
    st.sampled_from([0, 4, 8]),
)
def test_bytes_by_walking_over_rows(
    name: str, rows: int, columns: int, group: int | None, scale: int | None, zero: int
) -> None:
    stored = get_format(name, group=group, scale_bits=scale, zero_bits=zero)
    data = sum((columns * stored.bits + 7) // 8 for _ in range(rows))
    groups = 0
    if stored.stores_scales:
        length = columns if stored.per_row else stored.group
        groups = sum(len(range(0, columns, length)) for _ in range(rows))
    metadata = (groups * (stored.scale_bits + stored.zero_bits) + 7) // 8
    assert stored.data_bytes(rows, columns) == data
    assert stored.metadata_bytes(rows, columns) == metadata
    assert stored.bytes(rows, columns) == data + metadata


@pytest.mark.parametrize(
    ("name", "bits"),
    [("int4", "4.125"), ("mxfp4", "4.25"), ("mxfp8", "8.25"), ("nvfp4", "4.5"), ("bf16", "16")],
)
def test_bits_per_element_with_usual_scales(name: str, bits: str) -> None:
    assert get_format(name).bits_per_element() == Fraction(bits)


def test_one_scale_per_row_depends_on_its_length() -> None:
    assert get_format("int8").bits_per_element(64) == 8 + Fraction(32, 64)
    assert get_format("int4", group=128).bits_per_element(130) == 4 + Fraction(2 * 16, 130)


@pytest.mark.parametrize("name", ["int3", "", "bfloat", "float17", "x" * 500])
def test_unknown_dtypes(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        get_format(name)
    assert caught.value.code == "AI-EST-002"


@pytest.mark.parametrize("further", [{"group": -1}, {"zero_bits": -4}, {"scale_bits": -8}])
def test_absurd_formats(further: dict[str, int]) -> None:
    with pytest.raises(UsageError) as caught:
        get_format("int4", **further)
    assert caught.value.code == "AI-EST-002"


def test_what_products_compute_in() -> None:
    layer = Matrix(name="w", operator="w", outputs=4, inputs=4)
    head = Matrix(name="h", operator="h", outputs=4, inputs=4, quantised=False)
    bf16, int8, int4 = (get_format(name) for name in ("bfloat16", "int8", "int4"))
    assert Precision(weights=int4).product_dtype(layer) == "bfloat16"
    assert Precision(weights=int8, activations=int8).product_dtype(layer) == "int8"
    assert Precision(weights=int4, activations=int8).product_dtype(layer) == "int8"
    assert Precision(weights=int8, activations=int8).product_dtype(head) == "bfloat16"
    assert Precision(weights=int8, activations=int8).attention_dtype == bf16.dtype


def test_embedding_head_and_routers_are_kept() -> None:
    decoder = load_decoder("qwen3-30b-a3b")
    kept = [matrix.name for matrix in decoder.layers[0].matrices if not matrix.quantised]
    assert kept == ["router"]
    assert not decoder.embedding.quantised and not decoder.head.quantised
