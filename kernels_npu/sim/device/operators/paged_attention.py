"""`_npu_paged_attention`: one query per sequence over a paged cache, by ATB."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels_npu.sim.device.operators.attention import Visibility, attend, pages
from kernels_npu.sim.device.operators.refusal import refuse_mixed_dtypes, refused
from kernels_npu.sim.device.operators.whole import WholeOperator

_NAME = "_npu_paged_attention"
#: What a workspace has here; the vendor's size depends on the chip and is not known.
_WORKSPACE_BYTES = 16


def paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    out: Tensor,
    *,
    workspace: Tensor | None = None,
) -> None:
    """Attention of `query` [batch, heads, size] into `out`.

    Caches are [blocks, block size, kv heads, size], `block_table` [batch, columns] int32.
    context_lens: [batch] int32 in host memory, read at the call; 0 gives a row of zeros.

    Raises:
        DeviceError: AI-DEV-015 for shapes that do not fit, or a block behind the cache.
    """
    check(
        query,
        key_cache,
        value_cache,
        num_kv_heads,
        num_heads,
        scale_value,
        block_table,
        context_lens,
        out,
    )
    rows = query.view(query.shape[0], num_heads, -1)
    target = out.view(out.shape[0], num_heads, -1)
    for row, length in enumerate(context_lens.tolist()):
        key, value = (pages(c, block_table[row], length, _NAME) for c in (key_cache, value_cache))
        target[row] = attend(rows[row : row + 1], key, value, scale_value, Visibility())[0][0]


def check(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    out: Tensor,
    *,
    workspace: Tensor | None = None,
) -> None:
    """Refuse operands that do not fit each other."""
    refuse_mixed_dtypes(_NAME, query=query, key_cache=key_cache, value_cache=value_cache, out=out)
    if num_heads % num_kv_heads or key_cache.shape[2] != num_kv_heads:
        raise refused(
            _NAME,
            f"{num_heads} heads, {num_kv_heads} kv heads, a cache with {key_cache.shape[2]}",
            rule="heads are a multiple of kv heads, which are the cache's third dimension",
            fix="pass the local numbers of heads",
        )
    rows = query.shape[0]
    if not rows <= min(block_table.shape[0], out.shape[0]) or context_lens.numel() != rows:
        raise refused(
            _NAME,
            f"{rows} queries, {context_lens.numel()} lengths, {block_table.shape[0]} rows of the "
            f"block table, {out.shape[0]} rows of the output",
            rule="each query is one sequence",
            fix="cut or pad them to the same number",
        )


def workspace_for(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: Tensor,
    context_lens: Tensor,
    out: Tensor,
) -> Tensor:
    """Memory that the operator may be given as `workspace`."""
    return torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=query.device)


_ARGUMENTS = (
    "Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, int num_heads, "
    "float scale_value, Tensor block_table, Tensor context_lens, "
)
OPERATORS = (
    WholeOperator(
        namespace="atb",
        schema=f"{_NAME}({_ARGUMENTS}Tensor(a!) out, *, Tensor? workspace=None) -> ()",
        compute=paged_attention,
        shapes=check,
        from_host=frozenset({"context_lens"}),
    ),
    WholeOperator(
        namespace="atb",
        schema=f"{_NAME}_get_workspace({_ARGUMENTS}Tensor(a!) out) -> Tensor",
        compute=workspace_for,
        allocates=True,
    ),
)
