"""Packed layouts: against loops made from the formats' descriptions, round trips, odd lengths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels_npu.errors import UsageError
from kernels_npu.quant import (
    INT4,
    LAYOUTS,
    UINT4,
    Granularity,
    QuantisedTensor,
    convert,
    gptq_zero_points,
    gptq_zeros_to_store,
    pack,
    quantise,
    unpack,
    zero_point_shift,
)

EIGHTS = st.integers(1, 3).map(lambda n: 8 * n)


def codes_for(layout_name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    codes = LAYOUTS[layout_name].codes
    return np.random.default_rng(seed).integers(codes.low, codes.high + 1, shape)


def test_four_weights_in_two_bytes() -> None:
    """-1.0, 0.0, 0.5, 1.5 by a scale of 0.25 are -4, 0, 2, 6, and lie as 0x0C 0x62."""
    made = quantise([-1.0, 0.0, 0.5, 1.5], INT4, scales=0.25)
    words = pack(made.codes, LAYOUTS["onnx"])
    assert words.tobytes() == b"\x0c\x62"
    codes = unpack(words, LAYOUTS["onnx"], (4,))
    assert codes.tolist() == [-4, 0, 2, 6]
    assert (0.25 * codes).tolist() == [-1.0, 0.0, 0.5, 1.5]
    # The same bytes taken for unsigned codes: a wrong sign, not a quantisation error.
    assert 0.25 * unpack(words, LAYOUTS["onnx-uint4"], (4,))[0] == 3.0


@pytest.mark.parametrize(
    ("codes", "packed"),
    [([], b""), ([-8], b"\x08"), ([7], b"\x07"), ([-1, 0, 7], b"\x0f\x07"), ([-8, 7], b"\x78")],
)
def test_onnx_pads_the_last_byte_with_zero_bits(codes: list[int], packed: bytes) -> None:
    array = np.array(codes, dtype=np.int8)
    words = pack(array, LAYOUTS["onnx"])
    assert (pack(codes, LAYOUTS["onnx"]) == words).all()
    assert words.tobytes() == packed
    assert unpack(words, LAYOUTS["onnx"], array.shape).tolist() == codes


def test_eight_codes_in_a_word() -> None:
    """Ascending nibbles hold ascending elements; AWQ's the even ones, then the odd ones."""
    ascending = np.arange(8)
    assert pack(ascending.reshape(8, 1), LAYOUTS["gptq"])[0, 0] == 0x76543210
    assert pack(ascending, LAYOUTS["gptq-zeros"])[0] == 0x76543210
    assert pack(ascending, LAYOUTS["awq"])[0] == 0x75316420
    assert pack(ascending - 8, LAYOUTS["vllm"])[0] == 0x76543210
    top = pack(np.full(8, 15), LAYOUTS["awq"])
    assert top.dtype == np.int32 and top[0] == -1


def loop_gptq(codes: np.ndarray) -> np.ndarray:
    """qweight[K / 8, N]: element k of a column is in nibble k % 8 of word k // 8."""
    words = np.zeros((codes.shape[0] // 8, codes.shape[1]), dtype=np.uint32)
    for k in range(codes.shape[0]):
        for n in range(codes.shape[1]):
            words[k // 8, n] |= np.uint32(int(codes[k, n]) << (4 * (k % 8)))
    return words.view(np.int32)


def loop_awq(codes: np.ndarray) -> np.ndarray:
    """qweight[K, N / 8]: nibble i of a word holds column 8 * word + order[i]."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    words = np.zeros((codes.shape[0], codes.shape[1] // 8), dtype=np.uint32)
    for k in range(codes.shape[0]):
        for word in range(words.shape[1]):
            for i, column in enumerate(order):
                words[k, word] |= np.uint32(int(codes[k, 8 * word + column]) << (4 * i))
    return words.view(np.int32)


def loop_vllm(codes: np.ndarray) -> np.ndarray:
    """weight_packed[N, ceil(K / 8)]: codes plus 8, rows padded with zero nibbles."""
    width = -(-codes.shape[1] // 8)
    words = np.zeros((codes.shape[0], width), dtype=np.uint32)
    for n in range(codes.shape[0]):
        for k in range(codes.shape[1]):
            words[n, k // 8] |= np.uint32((int(codes[n, k]) + 8) << (4 * (k % 8)))
    return words.view(np.int32)


@given(EIGHTS, EIGHTS, st.integers(0, 99))
def test_gptq_and_awq_against_loops(k: int, n: int, seed: int) -> None:
    codes = codes_for("gptq", (k, n), seed)
    assert (pack(codes, LAYOUTS["gptq"]) == loop_gptq(codes)).all()
    assert (pack(codes, LAYOUTS["awq"]) == loop_awq(codes)).all()


@given(st.integers(1, 4), st.integers(1, 20), st.integers(0, 99))
def test_compressed_tensors_against_a_loop(n: int, k: int, seed: int) -> None:
    codes = codes_for("vllm", (n, k), seed)
    assert (pack(codes, LAYOUTS["vllm"]) == loop_vllm(codes)).all()


def test_the_orders_that_loaders_undo() -> None:
    """AWQ's readers reorder unpacked nibbles by [0, 4, 1, 5, 2, 6, 3, 7]."""
    assert np.argsort(LAYOUTS["awq"].order).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


@given(st.sampled_from(sorted(LAYOUTS)), st.data())
def test_packing_loses_nothing(name: str, data: st.DataObject) -> None:
    layout = LAYOUTS[name]
    rank = data.draw(st.integers(2, 3))
    shape = [data.draw(st.integers(0, 9)) for _ in range(rank)]
    if not layout.pads:
        assert layout.axis is not None
        shape[layout.axis] = data.draw(EIGHTS)
    codes = codes_for(name, tuple(shape), data.draw(st.integers(0, 99)))
    words = pack(codes, layout)
    back = unpack(words, layout, codes.shape)
    assert words.shape == layout.packed_shape(codes.shape) and words.dtype == layout.dtype
    assert back.dtype == layout.codes.dtype and (back == codes).all()


@given(st.sampled_from(sorted(LAYOUTS)), st.sampled_from(sorted(LAYOUTS)), st.integers(0, 99))
def test_conversion_keeps_what_codes_stand_for(source: str, target: str, seed: int) -> None:
    """There and back, and q - z stays when zero points move along."""
    one, other = LAYOUTS[source], LAYOUTS[target]
    codes = codes_for(source, (8, 16), seed)
    words = convert(pack(codes, one), one, other, codes.shape)
    assert (convert(words, other, one, codes.shape) == pack(codes, one)).all()
    shift = zero_point_shift(one, other)
    assert (unpack(words, other, codes.shape).astype(int) - shift == codes).all()
    assert shift in (-8, 0, 8) and (shift == 0) == (one.codes == other.codes)


def test_gptq_weights_become_those_of_compressed_tensors(rng: np.random.Generator) -> None:
    """[K, N] packed along K becomes [N, K] packed along K; every weight is what it was."""
    k, n, group = 32, 8, 16
    codes = rng.integers(0, 16, (k, n)).astype(np.uint8)
    zeros = rng.integers(1, 17, (k // group, n)).astype(np.int32)
    scales = rng.uniform(0.01, 1, (k // group, n))
    groups = Granularity.per_group(axis=0, size=group)
    words, stored = pack(codes, LAYOUTS["gptq"]), gptq_zeros_to_store(zeros)
    read = QuantisedTensor(
        codes=unpack(words, LAYOUTS["gptq"], (k, n)),
        scales=scales,
        zero_points=gptq_zero_points(stored),
        code_range=UINT4,
        granularity=groups,
    )
    shift = zero_point_shift(LAYOUTS["gptq"], LAYOUTS["vllm"])
    moved = read.transpose()
    signed = QuantisedTensor(
        codes=(moved.codes.astype(int) + shift).astype(np.int8),
        scales=moved.scales,
        zero_points=moved.zero_points + shift,
        code_range=INT4,
        granularity=moved.granularity,
    )
    again = unpack(pack(signed.codes, LAYOUTS["vllm"]), LAYOUTS["vllm"], (n, k))
    assert (again == signed.codes).all()
    expected = (codes.astype(int) - np.repeat(zeros, group, axis=0)) * np.repeat(scales, group, 0)
    assert np.allclose(signed.dequantise(np.float64), expected.T)


def test_zero_points_of_gptqs_two_formats() -> None:
    assert gptq_zero_points([7, 15]).tolist() == [8, 16]
    assert gptq_zero_points([7, 15], "gptq_v2").tolist() == [7, 15]
    assert gptq_zeros_to_store(np.array([1, 16])).tolist() == [0, 15]
    assert gptq_zeros_to_store(np.array([0, 15]), "gptq_v2").tolist() == [0, 15]


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("AI-QUANT-005", lambda: gptq_zeros_to_store(np.array([0]))),
        ("AI-QUANT-006", lambda: gptq_zero_points([16])),
        ("AI-QUANT-006", lambda: pack([8], LAYOUTS["onnx"])),
        ("AI-QUANT-006", lambda: pack([-1], LAYOUTS["onnx-uint4"])),
        ("AI-QUANT-006", lambda: pack([0.5], LAYOUTS["onnx"])),
        ("AI-QUANT-006", lambda: pack(["a"], LAYOUTS["onnx"])),
        ("AI-QUANT-008", lambda: gptq_zero_points([1], "marlin")),
        ("AI-QUANT-009", lambda: pack(np.zeros((8, 7), dtype=int), LAYOUTS["awq"])),
        ("AI-QUANT-009", lambda: pack(np.zeros(8, dtype=int), LAYOUTS["gptq"])),
        ("AI-QUANT-009", lambda: unpack(np.zeros(2, np.uint8), LAYOUTS["onnx"], (5,))),
        ("AI-QUANT-009", lambda: unpack(np.zeros(1, np.int64), LAYOUTS["awq"], (8,))),
    ],
)
def test_wrong_input_has_a_code(code: str, call: object) -> None:
    with pytest.raises(UsageError) as caught:
        call()  # type: ignore[operator]
    assert caught.value.code == code and caught.value.fix
