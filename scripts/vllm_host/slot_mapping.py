"""vLLM's kernel that gives each token of a batch its slot in the paged cache, in torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class SlotMapping:
    """Called as the Triton kernel is: `kernel[(requests + 1,)](...)`."""

    def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
        """The launch for `grid[0] - 1` requests; the last program pads."""

        def launch(
            num_tokens: int,
            max_num_tokens: int,
            query_start_loc: Tensor,
            positions: Tensor,
            block_table: Tensor,
            block_table_stride: int,
            block_size: int,
            slot_mapping: Tensor,
            *,
            TOTAL_CP_WORLD_SIZE: int,
            PAD_ID: int,
            **constants: int,
        ) -> None:
            if TOTAL_CP_WORLD_SIZE != 1:
                raise NotImplementedError("context parallelism is not simulated")
            ends = query_start_loc[1 : grid[0]]
            token = torch.arange(num_tokens, device=positions.device, dtype=ends.dtype)
            request = torch.searchsorted(ends, token, right=True)
            exists = request < ends.numel()
            request = torch.where(exists, request, 0)
            column = torch.where(exists, positions // block_size, 0)
            slots = block_table[request, column] * block_size + positions % block_size
            current = slot_mapping[:num_tokens]
            slot_mapping[num_tokens:max_num_tokens] = PAD_ID
            current.copy_(torch.where(exists, slots.to(current.dtype), current))

        return launch
