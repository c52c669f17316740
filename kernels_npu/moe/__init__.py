"""Mixtures of experts: what the host hands to a grouped matrix product.

tables = build_dispatch(expert_ids, num_experts=64, block_rows=128)
check_dispatch(tables, expert_ids)
"""

from __future__ import annotations

from kernels_npu.moe.check import check_dispatch
from kernels_npu.moe.dispatch import PADDING_RULES, DispatchTables, build_dispatch, most_blocks
from kernels_npu.moe.routing import sample_routing

__all__ = [
    "PADDING_RULES",
    "DispatchTables",
    "build_dispatch",
    "check_dispatch",
    "most_blocks",
    "sample_routing",
]
