"""What two engines must agree on before one hands its KV cache to the other.

Prefill and decode may run on different hosts. The bytes of a block mean something only together
with the facts of this record; an engine that reads them otherwise serves wrong tokens without any
error. Each side writes its record, and `check` refuses the hand-over where they differ.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernels_npu.errors import UsageError

#: Bytes of an element, by the names that engines use.
ITEMSIZE = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3": 1,
    "float8_e5m2": 1,
    "int8": 1,
}
#: The order of the axes of one layer's keys; values are alike, in an allocation of their own.
LAYOUTS = {
    "NHD": ("block", "slot", "kv_head", "element"),
    "HND": ("block", "kv_head", "slot", "element"),
}
#: How a quantised element becomes a number.
SCALE_FORMATS = ("none", "per_tensor", "per_head", "per_token_head", "per_channel")
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class KVContract:
    """The cache of one engine.

    Args:
        model: what both sides call the model and its revision; the weights decide the keys.
        layers: layers with a cache of their own.
        kv_heads: of the whole model. tensor_parallel: ranks that share them; a rank has
            `ceil(kv_heads / tensor_parallel)`, copied where there are more ranks than heads.
        head_dim: elements of a key. value_head_dim: of a value.
        block_size: tokens per block.
        dtype: of an element, a key of `ITEMSIZE`. layout: a key of `LAYOUTS`.
        scale_format: one of `SCALE_FORMATS`. scale_dtype: of a scale; "" without scales.
        rotary: what was applied to keys before they were stored: "half_split", "interleaved", or
            "none" where the reader has to rotate them.
        sliding_window: tokens that a layer keeps; 0 is all.

    Raises:
        UsageError: AI-VLLM-003 for values that no cache has.
    """

    model: str
    layers: int
    kv_heads: int
    head_dim: int
    value_head_dim: int
    block_size: int
    dtype: str
    layout: str = "NHD"
    tensor_parallel: int = 1
    scale_format: str = "none"
    scale_dtype: str = ""
    rotary: str = "half_split"
    sliding_window: int = 0
    version: int = VERSION

    def __post_init__(self) -> None:
        counts = ("layers", "kv_heads", "head_dim", "value_head_dim", "block_size")
        for name in (*counts, "tensor_parallel"):
            _require(
                _is_count(getattr(self, name), 1), name, getattr(self, name), "an int from 1 on"
            )
        window = self.sliding_window
        _require(_is_count(window, 0), "sliding_window", window, "an int from 0 on")
        for name, known in (
            ("dtype", ITEMSIZE),
            ("layout", LAYOUTS),
            ("scale_format", SCALE_FORMATS),
            ("rotary", ("half_split", "interleaved", "none")),
            ("version", (VERSION,)),
        ):
            value = getattr(self, name)
            _require(value in tuple(known), name, value, f"one of {', '.join(map(str, known))}")
        model: object = self.model  # another engine's record may hold anything
        _require(isinstance(model, str) and model != "", "model", model, "a name")
        has_scales = self.scale_format != "none"
        _require(
            has_scales == bool(self.scale_dtype),
            "scale_dtype",
            self.scale_dtype,
            "given with scales, and only with them",
        )

    @property
    def kv_heads_per_rank(self) -> int:
        """Heads in the cache of one rank."""
        return -(-self.kv_heads // self.tensor_parallel)

    @property
    def block_bytes(self) -> int:
        """Bytes of the keys and values of one block in all layers of one rank, without scales."""
        elements = self.kv_heads_per_rank * (self.head_dim + self.value_head_dim)
        return self.layers * self.block_size * elements * ITEMSIZE[self.dtype]

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> KVContract:
        """A record that another engine wrote.

        Raises:
            UsageError: AI-VLLM-003 for anything else: a missing fact is not assumed.
        """
        try:
            fields = json.loads(text)
        except ValueError as error:
            raise _wrong("the record", text[:80], "one JSON object") from error
        return cls.from_fields(fields)

    @classmethod
    def from_fields(cls, fields: Any) -> KVContract:
        """See `from_json`."""
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(fields, Mapping) or set(fields) != names:
            given = sorted(map(str, fields)) if isinstance(fields, Mapping) else fields
            raise _wrong("the record", given, f"an object with {', '.join(sorted(names))}")
        return cls(**fields)


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A fact in which two engines differ."""

    field: str
    producer: object
    consumer: object

    def __str__(self) -> str:
        return f"{self.field}: {self.producer!r} is written, {self.consumer!r} is read"


def mismatches(producer: KVContract, consumer: KVContract) -> list[Mismatch]:
    """All facts in which the engine that writes a cache and the one that reads it differ."""
    written, read = dataclasses.asdict(producer), dataclasses.asdict(consumer)
    return [
        Mismatch(field=name, producer=written[name], consumer=read[name])
        for name in written
        if written[name] != read[name]
    ]


def check(producer: KVContract, consumer: KVContract) -> None:
    """Refuse a hand-over between engines that do not agree on every fact.

    Raises:
        UsageError: AI-VLLM-004 with all differences.
    """
    found = mismatches(producer, consumer)
    if found:
        raise UsageError(
            "AI-VLLM-004",
            "the KV cache cannot be handed over: " + "; ".join(map(str, found)),
            rule="bytes that are read as something else are wrong keys, not an error",
            fix="start both engines with the same model, dtype, block size and parallelism",
        )


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _require(holds: bool, name: str, value: object, rule: str) -> None:
    if not holds:
        raise _wrong(name, value, rule)


def _wrong(name: str, value: object, rule: str) -> UsageError:
    return UsageError(
        "AI-VLLM-003",
        f"KV contract: {name} is {value!r}",
        rule=f"it is {rule}",
        fix="write the record with the engine that owns the cache",
    )
