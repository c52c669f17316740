"""A pass of queries over the cache of a layer, and what chooses the tokens it sees."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A pass of queries over cached tokens.

    key_dim, value_dim: per head, as decode computes with them; prefill_key_dim,
        prefill_value_dim: where a prompt's keys and values are expanded first.
    cached: vectors that a token leaves in the cache for it, as (number, elements of each).
    window: keys that a query sees at most, 0 for all.
    gathers: whether those keys differ from query to query, so that a prompt reads all of them.
    """

    name: str
    heads: int
    key_dim: int
    value_dim: int
    prefill_key_dim: int
    prefill_value_dim: int
    cached: tuple[tuple[int, int], ...]
    window: int
    gathers: bool = False

    @property
    def prefill_window(self) -> int:
        """Keys before a prompt's first token that it reads, and that token's own; 0 for all."""
        return 0 if self.gathers else self.window


@dataclass(frozen=True, kw_only=True)
class Indexer:
    """What chooses the `top_k` tokens that a query attends to (DeepSeek sparse attention).

    Each token leaves one key of `dim` elements in the cache, which `heads` small queries score.
    shared: the layer takes the choice of an earlier one, and has neither keys nor queries for it.
    """

    heads: int
    dim: int
    top_k: int
    shared: bool = False
