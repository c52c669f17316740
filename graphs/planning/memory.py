"""Device memory that the graphs of a plan hold, by formula.

Counted is what the runner and the captured step allocate. Not counted, because no formula for them
is known: what the driver keeps per task of a graph, and communication buffers.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphs.planning.shape import ModelShape
from kernels_npu.attention.tiling import DecodeTiling
from kernels_npu.errors import UnsupportedError

#: Static inputs of a row: two int64 and two int32, see `graphs.batch`.
_INPUT_BYTES = 8 + 8 + 4 + 4
_TABLE_ENTRY_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class GraphMemory:
    """Bytes on the device; all buckets share the static buffers and one pool.

    inputs: static inputs, block table included. logits: the static output.
    activations: the largest graph's own tensors at their peak. Capture goes largest first into one
        pool, so the smaller graphs fit into what the largest one left; a runtime without pool
        sharing holds `activations` per graph.
    workspace: of this toolkit's attention kernel, for the largest batch; None when the kernel does
        not cover the model's heads and another one with a workspace of its own would run.
    """

    inputs: int
    logits: int
    activations: int
    workspace: int | None

    @property
    def total(self) -> int:
        return self.inputs + self.logits + self.activations + (self.workspace or 0)

    def to_dict(self) -> dict[str, int | None]:
        return {**vars(self), "total": self.total}


def graph_memory(
    shape: ModelShape, *, max_batch: int, max_blocks: int, block_size: int = 128
) -> GraphMemory:
    """The memory of graphs for up to `max_batch` rows and `max_blocks` blocks per sequence."""
    size = shape.activation_bytes
    return GraphMemory(
        inputs=max_batch * (_INPUT_BYTES + _TABLE_ENTRY_BYTES * max_blocks),
        logits=max_batch * shape.vocab_size * size,
        activations=int(max_batch * _live_elements(shape) * size),
        workspace=_attention_workspace(shape, max_batch, block_size),
    )


def _live_elements(shape: ModelShape) -> float:
    """Elements per row that are alive at once in the widest stage of a step.

    The residual stream lives throughout. Beside it: the normalised input and Q, K, V; attention's
    result and its projection; the MLP's input, gate, up and their product (of every visited
    expert); at the end the logits.
    """
    visited = max(shape.active_experts, 1) * shape.mlp_width + shape.shared_width
    stages = (
        shape.hidden_size + shape.q_size + 2 * shape.kv_size,
        shape.q_size + shape.hidden_size,
        shape.hidden_size + 3 * visited / shape.tensor_parallel,
        shape.hidden_size + shape.vocab_size,
    )
    return shape.hidden_size + max(stages)


def _attention_workspace(shape: ModelShape, rows: int, block_size: int) -> int | None:
    """Scores, probabilities and partial outputs: two slots per sequence and KV head each."""
    kv_heads = max(shape.num_kv_heads // shape.tensor_parallel, 1)
    q_heads = max(shape.num_q_heads // shape.tensor_parallel, 1)
    try:
        tiling = DecodeTiling(q_heads, kv_heads, shape.head_dim, block_size)
    except UnsupportedError:
        return None
    per_row_of_tile = tiling.keys * (4 + shape.activation_bytes) + shape.head_dim * 4
    return rows * kv_heads * 2 * tiling.live * per_row_of_tile
