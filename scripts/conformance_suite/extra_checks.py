"""Checks of our own for files that run a kernel and judge nothing.

Each function runs the unmodified file and returns what it measured; it raises AssertionError when
the kernel's result is wrong.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def run(file: str) -> str:
    """Run `file` under the check that belongs to it."""
    return CHECKS[_key(Path(file))](file)


def drive(file: str) -> bool:
    """`run`, where a check belongs to `file`; whether one does."""
    known = _key(Path(file)) in CHECKS
    if known:
        run(file)
    return known


def _key(path: Path) -> str:
    return path.name if path.name in CHECKS else path.parent.name


def scalar_of_each_core(file: str) -> str:
    """The kernel gives every vector core 128 numbers; each stores the first one of its own."""
    names = runpy.run_path(file, run_name="__main__")
    taken, given = names["b"].cpu(), names["a"].cpu()
    torch.testing.assert_close(taken, given[:: given.numel() // taken.numel()], rtol=0, atol=0)
    return f"{taken.numel()} cores stored their own number"


def indices_of_the_indexer(file: str) -> str:
    """The file counts the indices that differ from its golden ones in any order; none may."""
    names = runpy.run_path(file, run_name="loaded")
    count: Callable[[Any, Any], int] = names["count_mismatches_last_dim"]
    seen: list[tuple[int, int]] = []

    def counting(golden: torch.Tensor, found: torch.Tensor) -> int:
        wrong = int(count(golden, found))
        seen.append((wrong, found.numel()))
        return wrong

    test = names["test_indexer"]
    test.__globals__["count_mismatches_last_dim"] = counting
    test()
    assert seen, "the file did not compare its indices"
    wrong, total = map(sum, zip(*seen))
    assert wrong <= total * 1e-3, f"{wrong} of {total} indices are not among the golden ones"
    return f"{wrong} of {total} indices differ from the golden ones"


def sparse_attention_against_golden(file: str) -> str:
    """A decode step over 2560 paged keys of which 2048 take part, as the folder's driver does."""
    folder = Path(file).parent
    sys.path[:0] = [str(folder), str(folder.parent)]
    golden = importlib.import_module("sfa_golden")
    names = runpy.run_path(file, run_name="loaded")
    names["init_test"]()
    heads, dim, rope, keys, taken, block = 128, 512, 64, 2560, 2048, 128

    def normal(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.bfloat16, device="npu").normal_(mean=0.0, std=0.5)

    order = torch.stack([torch.randperm(keys, device="cpu")[:taken]]).to(torch.int32)
    pages = torch.randperm(keys // block, device="cpu").to(torch.int32).reshape(1, -1)
    key = normal(keys // block, block, 1, dim)
    inputs: dict[str, Any] = {
        "query": normal(1, heads, dim),
        "key": key,
        "value": key.clone(),
        "sparse_indices": order.reshape(1, 1, taken).to("npu"),
        "scale_value": 0.5,
        "sparse_block_size": 1,
        "actual_seq_lengths_query": torch.tensor([1], dtype=torch.int32, device="npu"),
        "actual_seq_lengths_kv": torch.tensor([keys], dtype=torch.int32, device="npu"),
        "query_rope": normal(1, heads, rope),
        "key_rope": normal(keys // block, block, 1, rope),
        "layout_query": "TND",
        "layout_kv": "PA_BSND",
        "sparse_mode": 0,
        "block_table": pages.to("npu"),
    }
    found = names["sparse_attn_tilelang"](**inputs, attention_mode=2)
    torch.set_default_device("cpu")
    on_host = {k: v.cpu() if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    expected = torch.as_tensor(golden.cpu_sparse_flash_attention(**on_host))
    torch.testing.assert_close(
        found.cpu().float().reshape(expected.shape), expected.float(), rtol=1e-2, atol=1e-2
    )
    return f"{expected.numel()} outputs agree with the golden library"


def product_that_was_tuned(file: str) -> str:
    """The tuner compares each configuration on its own; the chosen kernel multiplies once more."""
    names = runpy.run_path(file, run_name="__main__")
    kernel, (m, n, k) = names["func"], (names[size] for size in "MNK")
    a, b = torch.randn(m, k).half().to("npu"), torch.randn(k, n).half().to("npu")
    torch.testing.assert_close(kernel(a, b), a @ b, rtol=1e-2, atol=1e-2)
    return f"the chosen configuration {kernel.get_tuner_result()['config']} multiplies"


CHECKS: dict[str, Callable[[str], str]] = {
    "setvalue_example.py": scalar_of_each_core,
    "lightning_indexer": indices_of_the_indexer,
    "autotune": product_that_was_tuned,
    "bench_sfa": sparse_attention_against_golden,
}
