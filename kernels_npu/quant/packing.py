"""How 4-bit codes lie in bytes and 32-bit words, by the names of the formats that do so.

Mixing up two layouts does not crash: values are plausible and wrong. So every layout has a name,
and says along which axis it packs, which element is in which nibble, and what a nibble means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernels_npu.errors import UsageError
from kernels_npu.quant.affine import INT4, UINT4, CodeRange, Integers
from kernels_npu.quant.tensor import require_codes


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A way of packing.

    order: nibble i, counted from the lowest bits, holds element `order[i]` of its word.
    axis: which is packed; None packs the tensor flattened in row-major order.
    codes: what elements are. bias: added to a code to make the nibble; two's complement without.
    pads: whether the last word may be incomplete; its rest is zero bits.
    """

    name: str
    order: tuple[int, ...]
    axis: int | None
    codes: CodeRange
    bias: int
    pads: bool
    source: str

    @property
    def per_word(self) -> int:
        """Codes in one word: 2 in a byte, 8 in 32 bits."""
        return len(self.order)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a word."""
        return np.dtype(np.uint8 if self.per_word == 2 else np.int32)

    def packed_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the words of a tensor of `shape`.

        Raises:
            UsageError: AI-QUANT-009 when there is no such axis or it does not divide into words.
        """
        if self.axis is None:
            return (-(-int(np.prod(shape)) // self.per_word),)
        if len(shape) < -self.axis:
            raise self._misfit(shape, f"packs along axis {self.axis}")
        axis = self.axis % len(shape)
        words, rest = divmod(shape[axis], self.per_word)
        if rest and not self.pads:
            raise self._misfit(shape, f"has no incomplete words of {self.per_word}")
        return (*shape[:axis], words + bool(rest), *shape[axis + 1 :])

    def _misfit(self, shape: tuple[int, ...], why: str) -> UsageError:
        return UsageError(
            "AI-QUANT-009",
            f"layout {self.name} {why}; the tensor has shape {list(shape)}",
            rule="a packed tensor has whole words along the packed axis, or its format pads them",
            fix="pad the tensor itself, and keep its number of valid elements",
        )


_ASCENDING = tuple(range(8))
LAYOUTS: Mapping[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout(
            name="onnx",
            order=(0, 1),
            axis=None,
            codes=INT4,
            bias=0,
            pads=True,
            source="ONNX, INT4 in TensorProto: first of two elements in the low nibble",
        ),
        Layout(
            name="onnx-uint4",
            order=(0, 1),
            axis=None,
            codes=UINT4,
            bias=0,
            pads=True,
            source="ONNX, UINT4 in TensorProto",
        ),
        Layout(
            name="gptq",
            order=_ASCENDING,
            axis=-2,
            codes=UINT4,
            bias=0,
            pads=False,
            source="qweight[K / 8, N]: vLLM quant_utils.gptq_pack",
        ),
        Layout(
            name="gptq-zeros",
            order=_ASCENDING,
            axis=-1,
            codes=UINT4,
            bias=0,
            pads=False,
            source="qzeros[K / group, N / 8], stored less one in checkpoint format gptq",
        ),
        Layout(
            name="awq",
            order=(0, 2, 4, 6, 1, 3, 5, 7),
            axis=-1,
            codes=UINT4,
            bias=0,
            pads=False,
            source="qweight[K, N / 8] and qzeros: vLLM quant_utils.awq_pack, AutoAWQ",
        ),
        Layout(
            name="vllm",
            order=_ASCENDING,
            axis=-1,
            codes=INT4,
            bias=8,
            pads=True,
            source="weight_packed[N, K / 8] of compressed-tensors (pack_to_int32), uint4b8 in vLLM",
        ),
    )
}


def pack(codes: ArrayLike, layout: Layout) -> Integers:
    """Words of `layout.packed_shape`; 32-bit words as int32, with the bits that upstream has.

    Raises:
        UsageError: AI-QUANT-006 for codes outside the layout's; AI-QUANT-009 for a shape that does
            not divide.
    """
    array = np.asarray(codes)
    require_codes(array, layout.codes)
    words = layout.packed_shape(array.shape)
    axis = 0 if layout.axis is None else layout.axis
    lines = np.moveaxis(array.reshape(-1) if layout.axis is None else array, axis, -1)
    # Nibbles of padding are zero bits, whatever code that is.
    nibbles = (lines.astype(np.int64) + layout.bias) & 0xF
    short = -lines.shape[-1] % layout.per_word
    nibbles = np.pad(nibbles, [(0, 0)] * (lines.ndim - 1) + [(0, short)])
    whole = (*lines.shape[:-1], nibbles.shape[-1] // layout.per_word, layout.per_word)
    grouped = nibbles.reshape(whole)[..., layout.order]
    packed = (grouped << (4 * np.arange(layout.per_word))).sum(axis=-1, dtype=np.int64)
    unsigned = packed.astype(np.uint8 if layout.per_word == 2 else np.uint32)
    result: Integers = np.moveaxis(unsigned, -1, axis).copy().view(layout.dtype)
    assert result.shape == words
    return result


def unpack(words: ArrayLike, layout: Layout, shape: tuple[int, ...]) -> Integers:
    """The codes of a tensor of `shape`, in the dtype of the layout's codes.

    Raises:
        UsageError: AI-QUANT-009 when the words are not those of such a tensor.
    """
    array = np.asarray(words)
    wanted = layout.packed_shape(shape)
    if array.shape != wanted or array.dtype.itemsize * 2 != layout.per_word:
        raise UsageError(
            "AI-QUANT-009",
            f"{array.dtype} words of shape {list(array.shape)} for a tensor of shape "
            f"{list(shape)}; layout {layout.name} has {layout.dtype} words of {list(wanted)}",
            rule="the number of valid elements is not in the words: it is kept beside them",
            fix="pass the shape that was packed, or name the layout that it was packed in",
        )
    axis = 0 if layout.axis is None else layout.axis
    lines = np.moveaxis(array, axis, -1).astype(np.int64)
    nibbles = (lines[..., None] >> (4 * np.arange(layout.per_word))) & 0xF
    codes = np.empty_like(nibbles)
    codes[..., layout.order] = nibbles
    flat = codes.reshape(*lines.shape[:-1], lines.shape[-1] * layout.per_word)
    length = int(np.prod(shape)) if layout.axis is None else shape[layout.axis]
    values = _decoded(flat[..., :length], layout)
    return np.ascontiguousarray(np.moveaxis(values, -1, axis).reshape(shape))


def _decoded(nibbles: NDArray[Any], layout: Layout) -> Integers:
    codes = nibbles - layout.bias
    if layout.codes.signed and not layout.bias:
        codes = np.where(codes >= 8, codes - 16, codes)
    return codes.astype(layout.codes.dtype)


def zero_point_shift(source: Layout, target: Layout) -> int:
    """What to add to zero points, too, when codes go from one layout to another: -8, 0 or 8."""
    return target.codes.low - source.codes.low


def convert(words: ArrayLike, source: Layout, target: Layout, shape: tuple[int, ...]) -> Integers:
    """The words of another layout for the same tensor.

    Signed codes become unsigned ones by adding 8. Zero points move with them by
    `zero_point_shift`, so that every `q - z` stays.

    Raises:
        UsageError: AI-QUANT-009 for words or shapes that do not fit either layout.
    """
    codes = unpack(words, source, shape).astype(np.int64)
    return pack(codes + zero_point_shift(source, target), target)
