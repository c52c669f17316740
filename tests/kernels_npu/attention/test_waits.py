"""Every set and every wait of the attention kernel is needed: without it a fault is found.

The kernel's text is changed, one line at a time, and run on sequences long enough to use
every slot twice.
"""

from __future__ import annotations

import re
from types import ModuleType

import pytest
import torch

from kernels_npu.attention import decode_kernel
from kernels_npu.attention.paged_decode_attention import SPEC
from kernels_npu.sim.config import configure
from kernels_npu.spec import Workload
from tests.kernels_npu.source_edits import synchronisation_lines, without_line

LINES = synchronisation_lines(decode_kernel)
SETS = {line: text for line, text in LINES.items() if "T.set_" in text}
WAITS = {line: text for line, text in LINES.items() if "T.wait_" in text}
#: A vector core without rows; both with rows; two slices of the head dimension.
SHAPES = [(9, 3, 64), (9, 1, 64), (2, 1, 192)]


def of(lines: dict[int, str]) -> list:
    """Parameters with the line's number and text for a name."""
    return [pytest.param(line, id=f"{line + 1}:{text[2:40]}") for line, text in lines.items()]


def launch(module: ModuleType, q_heads: int, kv_heads: int, head_dim: int) -> torch.Tensor:
    dims = {
        "q_heads": q_heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "block_size": 128,
        "seq_lens": (600,),
    }
    inputs = SPEC.make_inputs(
        Workload(name="waits", dims=dims), torch.float16, "npu", torch.Generator().manual_seed(0)
    )
    kernel = module.paged_decode_attention_kernel(
        q_heads, kv_heads, head_dim, 128, "float16", 0.125, 0, 0.0
    )
    names = ("query", "key_cache", "value_cache", "block_table", "seq_lens")
    return kernel(*(inputs[name] for name in names))


def test_the_kernel_has_the_waits_that_these_tests_delete():
    text = "\n".join(WAITS.values())
    for needed in ("P_FILLED", "S_FILLED", "O_FILLED", "K + i % 2", "V + k % 2", "K + k % 2"):
        assert needed in text
    assert len(SETS) == len(WAITS)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_complete_kernel_is_clean(shape, npu, tmp_path):
    launch(without_line(decode_kernel, None, tmp_path), *shape)


@pytest.mark.parametrize("line", of(WAITS))
def test_without_a_wait_a_fault_is_found(line, npu, tmp_path):
    from kernels_npu.sim.machine import HazardError

    module = without_line(decode_kernel, line, tmp_path)
    file = f"decode_kernel_without_{line}.py"
    for shape in SHAPES:
        with pytest.raises(HazardError) as caught:
            launch(module, *shape)
        assert caught.value.code.startswith(("AI-RACE", "AI-SYNC"))
        # Both sides of the race, or every waiting core, with their lines.
        assert len(set(re.findall(rf"{file}:\d+", str(caught.value)))) >= 2


@pytest.mark.parametrize("line", of(SETS))
def test_without_a_set_its_wait_is_reported(line, npu, tmp_path):
    from kernels_npu.sim.machine import HazardError

    module = without_line(decode_kernel, line, tmp_path)
    with pytest.raises(HazardError) as caught:
        launch(module, *SHAPES[0])
    assert caught.value.code.startswith("AI-SYNC")


@pytest.mark.parametrize(
    "wanted", ["T.wait_cross_flag(P_FILLED", 'T.wait_flag("mte1", "mte2", K', "O_FILLED + j"]
)
def test_a_fault_is_found_under_every_schedule(wanted, npu, tmp_path, schedule):
    from kernels_npu.sim.machine import HazardError

    line = next(line for line, text in WAITS.items() if wanted in text)
    with configure(schedule=schedule[0], seed=schedule[1]), pytest.raises(HazardError):
        launch(without_line(decode_kernel, line, tmp_path), 9, 3, 64)
