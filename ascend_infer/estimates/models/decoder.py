"""A decoder as estimates see it: matrices with their sizes, and what each layer caches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

from ascend_infer.estimates.models.matrix import Matrix, Parallel
from ascend_infer.estimates.models.scan import Indexer, Scan
from kernels_npu.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Attention of one layer.

    vectors: parameters beside matrices: norms of queries and keys, sinks.
    latent: elements that a token leaves in the cache where keys and values are compressed into
        one vector for all heads (MLA); 0 where each KV head has its own.
    key_dim, value_dim: per head, as decode reads them; with `latent` the products with the
        compressed vector itself, its up-projection being absorbed into queries and output.
    prefill_key_dim, prefill_value_dim: per head where keys and values are expanded first.
    window: most recent keys that a query sees, itself included; 0 is all of them.
    indexer: what chooses among them; None where all are seen.
    """

    matrices: tuple[Matrix, ...]
    vectors: int
    q_heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    prefill_key_dim: int
    prefill_value_dim: int
    latent: int = 0
    window: int = 0
    indexer: Indexer | None = None

    @property
    def kind(self) -> str:
        """`MHA`, `GQA`, `MQA` or `MLA`, with `top 2048` where tokens are chosen."""
        if self.latent:
            return "MLA" if self.indexer is None else f"MLA, top {self.indexer.top_k}"
        if self.kv_heads == self.q_heads:
            return "MHA"
        return "MQA" if self.kv_heads == 1 else "GQA"

    @property
    def scans(self) -> tuple[Scan, ...]:
        """Passes over the cache: that of attention, then the indexer's."""
        index, heads = self.indexer, self.kv_heads
        vectors = ((heads, self.key_dim), (heads, self.value_dim))
        limits = [limit for limit in (self.window, index.top_k if index else 0) if limit]
        attention = Scan(
            name="attention",
            heads=self.q_heads,
            key_dim=self.key_dim,
            value_dim=self.value_dim,
            prefill_key_dim=self.prefill_key_dim,
            prefill_value_dim=self.prefill_value_dim,
            cached=((1, self.latent),) if self.latent else vectors,
            window=min(limits, default=0),
            gathers=index is not None,
        )
        if index is None or index.shared:
            return (attention,)
        scores = Scan(
            name="indexer",
            heads=index.heads,
            key_dim=index.dim,
            value_dim=0,
            prefill_key_dim=index.dim,
            prefill_value_dim=0,
            cached=((1, index.dim),),
            window=self.window,
        )
        return (attention, scores)

    @property
    def cached_elements(self) -> int:
        """Elements that one token leaves in the cache of this layer."""
        return sum(number * size for scan in self.scans for number, size in scan.cached)

    def on_rank(self, parallel: Parallel) -> Attention:
        """Queries are divided evenly; KV heads too, or copied; a latent is on every rank."""
        ranks = parallel.tensor
        heads, kv_heads = self.q_heads, self.kv_heads
        even = heads % ranks == 0 and (
            self.latent > 0 or kv_heads % ranks == 0 or ranks % kv_heads == 0
        )
        if not even:
            raise UsageError(
                "AI-EST-003",
                f"{heads} query and {kv_heads} KV heads over {ranks} ranks",
                rule="ranks divide the query heads, and divide the KV heads or are a multiple",
                fix="choose a tensor parallelism that divides both",
            )
        return replace(
            self,
            matrices=tuple(matrix.on_rank(parallel) for matrix in self.matrices),
            q_heads=heads // ranks,
            kv_heads=kv_heads if self.latent else max(kv_heads // ranks, 1),
        )


@dataclass(frozen=True, kw_only=True)
class Mlp:
    """What follows attention: a dense MLP, or routed experts and what stands beside them.

    experts, active: routed experts, and how many a token visits; 0 for a dense MLP.
    """

    matrices: tuple[Matrix, ...]
    vectors: int = 0
    experts: int = 0
    active: int = 0

    @property
    def kind(self) -> str:
        """`dense` or `MoE`."""
        return "MoE" if self.experts else "dense"

    def on_rank(self, parallel: Parallel) -> Mlp:
        """What one rank holds; each rank keeps the whole router."""
        return replace(self, matrices=tuple(matrix.on_rank(parallel) for matrix in self.matrices))


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One decoder layer. norms: how often a row is normalised; norm_elements: their parameters."""

    attention: Attention
    mlp: Mlp
    norms: int
    norm_elements: int

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        return self.attention.matrices + self.mlp.matrices

    @property
    def kind(self) -> str:
        """Such as `GQA, window 4096, MoE`."""
        window = f", window {self.attention.window}" if self.attention.window else ""
        return f"{self.attention.kind}{window}, {self.mlp.kind}"

    @property
    def vectors(self) -> int:
        """Parameters that are no matrix: biases, norms, sinks."""
        biases = sum(matrix.bias_elements for matrix in self.matrices)
        return biases + self.attention.vectors + self.mlp.vectors + self.norm_elements

    @property
    def parameters(self) -> int:
        return sum(matrix.elements for matrix in self.matrices) + self.vectors

    def on_rank(self, parallel: Parallel) -> Layer:
        return replace(
            self, attention=self.attention.on_rank(parallel), mlp=self.mlp.on_rank(parallel)
        )


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """A decoder-only language model.

    embedding: of tokens. head: the output projection; with `tied_head` it is the embedding and
    holds no parameters of its own, but is read all the same.
    norm_elements: of the final norm. other_elements: learned positions and the like.
    max_context: positions that the configuration allows, 0 if it does not say.
    notes: what the reader of a figure should know.
    """

    name: str
    architecture: str
    hidden_size: int
    vocab_size: int
    layers: tuple[Layer, ...]
    embedding: Matrix
    head: Matrix
    tied_head: bool
    norm_elements: int
    other_elements: int = 0
    max_context: int = 0
    notes: tuple[str, ...] = ()

    @cached_property
    def groups(self) -> tuple[tuple[Layer, int], ...]:
        """Layers that are alike, and how many there are; in order of their first."""
        return tuple(Counter(self.layers).items())

    @cached_property
    def attentions(self) -> tuple[tuple[Attention, int], ...]:
        """The same for attention alone."""
        return tuple(Counter(layer.attention for layer in self.layers).items())

    def on_rank(self, parallel: Parallel) -> Decoder:
        """What one rank holds; the first rank's, where a size does not divide evenly.

        Raises:
            UsageError: AI-EST-003 when heads cannot be divided among the ranks.
        """
        if parallel == Parallel():
            return self
        sliced = {layer: layer.on_rank(parallel) for layer, _ in self.groups}
        return replace(
            self,
            layers=tuple(sliced[layer] for layer in self.layers),
            embedding=self.embedding.on_rank(parallel),
            head=self.head.on_rank(parallel),
        )
