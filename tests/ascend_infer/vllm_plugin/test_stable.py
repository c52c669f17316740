"""Metadata that moves is refused before a graph decodes with what was there before."""

from __future__ import annotations

import pytest
import torch

from ascend_infer.vllm_plugin.stable import StableAddresses
from kernels_npu.errors import EnvironmentProblem


def test_views_of_one_buffer_stay() -> None:
    lens, table = torch.zeros(8, dtype=torch.int32), torch.zeros(8, 3, dtype=torch.int32)
    stable = StableAddresses()
    for rows in (8, 1, 4):
        stable.check(seq_lens=lens[:rows], block_table=table[:rows])


def test_a_copy_is_refused() -> None:
    lens, table = torch.zeros(8, dtype=torch.int32), torch.zeros(8, 3, dtype=torch.int32)
    stable = StableAddresses()
    stable.check(seq_lens=lens, block_table=table)
    for moved in ({"seq_lens": lens.clone()}, {"block_table": table[1:]}):
        with pytest.raises(EnvironmentProblem, match=r"AI-VLLM-005: .* was at 0x"):
            stable.check(**moved)
