"""Every wait of the attention kernel is needed: without any one of them the simulator finds a fault.

The kernel's text is changed, one wait at a time, and run on sequences long enough to use every slot twice.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
import torch

from kernels_npu.attention import decode_kernel
from kernels_npu.attention.paged_decode_attention import SPEC
from kernels_npu.sim.config import configure
from kernels_npu.spec import Workload

SOURCE = Path(decode_kernel.__file__).read_text(encoding="utf-8").splitlines()
WAITS = [i for i, line in enumerate(SOURCE) if re.match(r"\s+T\.wait_(cross_)?flag\(", line)]
#: A vector core without rows; both with rows; two slices of the head dimension.
SHAPES = [(9, 3, 64), (9, 1, 64), (2, 1, 192)]


def variant(path: Path, without: int | None) -> ModuleType:
    """The kernel's module, with line `without` turned into `pass`."""
    lines = list(SOURCE)
    if without is not None:
        lines[without] = re.sub(r"\S.*", "pass", lines[without])
    file = path / f"decode_kernel_without_{without}.py"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    text = "\n".join(SOURCE[i] for i in WAITS)
    for needed in ("P_FILLED", "S_FILLED", "O_FILLED", "K + i % 2", "V + k % 2", "K + k % 2"):
        assert needed in text


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_complete_kernel_is_clean(shape, npu, tmp_path):
    launch(variant(tmp_path, None), *shape)


@pytest.mark.parametrize("line", WAITS, ids=lambda i: f"{i + 1}:{SOURCE[i].strip()[2:40]}")
def test_without_a_wait_a_fault_is_found(line, npu, tmp_path):
    from kernels_npu.sim.machine import HazardError

    module = variant(tmp_path, line)
    file = f"decode_kernel_without_{line}.py"
    for shape in SHAPES:
        with pytest.raises(HazardError) as caught:
            launch(module, *shape)
        assert caught.value.code.startswith(("AI-RACE", "AI-SYNC"))
        # Both sides of the race, or every waiting core, with their lines.
        assert len(set(re.findall(rf"{file}:\d+", str(caught.value)))) >= 2


@pytest.mark.parametrize(
    "wanted", ["T.wait_cross_flag(P_FILLED", 'T.wait_flag("mte1", "mte2", K', "O_FILLED + j"]
)
def test_a_fault_is_found_under_every_schedule(wanted, npu, tmp_path, schedule):
    from kernels_npu.sim.machine import HazardError

    line = next(i for i in WAITS if wanted in SOURCE[i])
    with configure(schedule=schedule[0], seed=schedule[1]), pytest.raises(HazardError):
        launch(variant(tmp_path, line), 9, 3, 64)
