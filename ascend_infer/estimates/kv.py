"""The ledger of keys and values: per token, layer, sequence, block and batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ascend_infer.estimates.formats import Format
from ascend_infer.estimates.models import Attention, Decoder, Scan
from ascend_infer.estimates.work import require_count


def token_bytes(attention: Attention, kv: Format) -> int:
    """Bytes that one token leaves in the cache of one layer, scales included."""
    return sum(scan_bytes(scan, kv) for scan in attention.scans)


def scan_bytes(scan: Scan, kv: Format) -> int:
    """Bytes of one token that a pass over the cache reads."""
    return sum(kv.bytes(number, size) for number, size in scan.cached)


@dataclass(frozen=True, kw_only=True)
class KvLayers:
    """Layers with the same cache. token_bytes: per token and layer."""

    kind: str
    layers: int
    window: int
    kv_heads: int
    token_bytes: int

    def cached_tokens(self, context: int) -> int:
        """Tokens of a sequence that a layer has to keep."""
        return min(context, self.window) if self.window else context


@dataclass(frozen=True, kw_only=True)
class KvLedger:
    """Bytes of keys and values on one rank.

    context, batch: of the figures per sequence and in total. block_size: tokens per block.
    mha_sequence_bytes: the same if each query head had keys and values of its own.
    """

    layers: tuple[KvLayers, ...]
    context: int
    batch: int
    block_size: int
    mha_sequence_bytes: int

    @property
    def token_bytes(self) -> int:
        """Of one token in all layers."""
        return sum(kind.layers * kind.token_bytes for kind in self.layers)

    @property
    def block_bytes(self) -> int:
        """Of one block in all layers, full of tokens."""
        return self.block_size * self.token_bytes

    def sequence_bytes_at(self, context: int) -> int:
        """Of one sequence; layers with a window keep no more than that."""
        return sum(
            kind.layers * kind.token_bytes * kind.cached_tokens(context) for kind in self.layers
        )

    def allocated_bytes_at(self, context: int) -> int:
        """The same in whole blocks, as a paged cache allocates."""
        return sum(
            kind.layers
            * kind.token_bytes
            * -(-kind.cached_tokens(context) // self.block_size)
            * self.block_size
            for kind in self.layers
        )

    @property
    def sequence_bytes(self) -> int:
        return self.sequence_bytes_at(self.context)

    @property
    def total_bytes(self) -> int:
        return self.batch * self.sequence_bytes

    @property
    def write_bytes(self) -> int:
        """What a decode step of the batch adds to the cache."""
        return self.batch * self.token_bytes

    @property
    def read_bytes(self) -> int:
        """What a decode step of the batch reads."""
        return self.total_bytes

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields, all in bytes."""
        return {
            "layers": [vars(kind) for kind in self.layers],
            "context": self.context,
            "batch": self.batch,
            "block_size": self.block_size,
            "token_bytes": self.token_bytes,
            "block_bytes": self.block_bytes,
            "sequence_bytes": self.sequence_bytes,
            "sequence_bytes_in_blocks": self.allocated_bytes_at(self.context),
            "mha_sequence_bytes": self.mha_sequence_bytes,
            "total_bytes": self.total_bytes,
            "decode_step_read_bytes": self.read_bytes,
            "decode_step_write_bytes": self.write_bytes,
        }


def kv_ledger(
    decoder: Decoder, kv: Format, *, context: int, batch: int = 1, block_size: int = 128
) -> KvLedger:
    """The ledger of what a rank holds (`decoder.on_rank`).

    Raises:
        UsageError: AI-EST-001 for a context, batch or block size that cannot be meant.
    """
    require_count("context", context)
    require_count("batch", batch)
    require_count("block_size", block_size)
    layers = tuple(
        KvLayers(
            kind=attention.kind,
            layers=count,
            window=attention.window,
            kv_heads=attention.kv_heads,
            token_bytes=token_bytes(attention, kv),
        )
        for attention, count in decoder.attentions
    )
    per_head = sum(
        count
        * _mha_token_bytes(attention, kv)
        * (min(context, attention.window) if attention.window else context)
        for attention, count in decoder.attentions
    )
    return KvLedger(
        layers=layers,
        context=context,
        batch=batch,
        block_size=block_size,
        mha_sequence_bytes=per_head,
    )


def _mha_token_bytes(attention: Attention, kv: Format) -> int:
    heads = attention.q_heads
    return kv.bytes(heads, attention.prefill_key_dim) + kv.bytes(heads, attention.prefill_value_dim)
