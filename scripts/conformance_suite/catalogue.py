"""Which files of a clone can be judged, and by what."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Run:
    """One execution of a file: its command line and `sim run --target`."""

    arguments: tuple[str, ...] = ()
    target: str = ""


@dataclass(frozen=True, kw_only=True)
class Judge:
    """How one file is judged.

    by: `assertion` (comparisons that the file makes), `pytest`, `output` (the file compares in a
    way of its own and prints the verdict) or `extra` (a check of ours, in `extra_checks`).
    passed, failed: for `output`, expressions that the output must and must not match.
    runs: executions, all of which must pass.
    why: for `output` and `extra`, what the file itself does.
    """

    by: str
    passed: str = ""
    failed: str = ""
    runs: tuple[Run, ...] = (Run(),)
    why: str = ""


#: Files that no CPU can judge, by pattern, with the reason. A file in neither table is judged by
#: its own assertions, so the files of another commit are taken as they come.
NOT_JUDGED: dict[str, str] = {
    "examples/shmem/*": "several cards and the shmem library",
    "examples/dispatch_combine/*": "several cards and the shmem library",
    "examples/gemm_aot/*": "the generated AscendC text and a build with CANN",
    "examples/torch_tl_ascend/*": "the generated AscendC text and a build with libtorch",
    "examples/flash_attention/fa_opt/flash_attn_bhsd_ascendc.py": "times an operator of torch_npu",
    "examples/flash_attention/fa_opt/plot.py": "draws measurements",
    "examples/flash_attention/fa_opt/run.py": "starts msprof",
    "examples/sparse_flash_attention/bench_sfa/bench_sfa.py": "compares with, and times, the "
    "operator npu_sparse_flash_attention; the kernels it drives are judged one by one",
    "*/__init__.py": "a package marker",
    "*_golden.py": "a reference library",
    "*/moe_token_utils.py": "host helpers, no kernel",
    "*/xllm_kernels/utils.py": "host helpers, no kernel",
    "testing/python/language/*_alloc_codegen.py": "asserts on the text of the generated source",
    "testing/python/language/*_alloc_var.py": "asserts on the text of the generated source",
    "testing/python/language/*_auto_platform.py": "tests a host function with a mocked torch.npu",
}

_INDEXER = Judge(
    by="extra", why="prints the share of wrong indices and succeeds in any case: it must be zero"
)
_SPARSE_ATTENTION = Judge(
    by="extra", why="defines a kernel and never calls it: compared with the folder's golden library"
)

JUDGES: dict[str, Judge] = {
    "testing/*": Judge(by="pytest"),
    "examples/elementwise/setvalue_example.py": Judge(
        by="extra", why="prints its result, and a match whatever it is"
    ),
    "examples/group_norm/*": Judge(
        by="output",
        passed=r"(?m)^Test Passed!$",
        failed=r"PRECISION_FAIL",
        why="compares mean and largest relative errors with thresholds, and NaN and inf one by one",
    ),
    "examples/sort/example_merge_sort.py": Judge(
        by="output",
        passed=r"4-way merge: Kernel Output Match!",
        failed=r"Match: False|FAIL",
        why="compares lists of Python numbers",
    ),
    "examples/topk_selector/*": Judge(
        by="output",
        passed=r"(?m)^Kernel Output Match!$",
        failed=r"Traceback",
        why="asserts that more than 99 % of the indices are those of torch.topk",
    ),
    "examples/autotune/*": Judge(
        by="extra", why="the comparisons are the tuner's: the chosen kernel is compared once more"
    ),
    "examples/lightning_indexer/*": _INDEXER,
    "examples/sparse_flash_attention/bench_sfa/*": _SPARSE_ATTENTION,
    "examples/gemm/example_gemm_fp8_pto.py": Judge(
        by="assertion",
        runs=(Run(target="A5"), Run(target="A5", arguments=("--fp8", "e5m2"))),
    ),
}
_OWN = Judge(by="assertion")


#: Files that take minutes or much memory, with the most that their process has held, in GiB: mostly
#: the files' own references. They start first, in this order, so that none is left for the end.
HEAVY: dict[str, float] = {
    "examples/sparse_flash_attention/example_sparse_flash_attn_dynamic_shape.py": 22,
    "examples/sparse_flash_attention/example_sparse_flash_attn_mask.py": 22,
    "testing/python/language/test_tilelang_ascend_language_elementwise.py": 1,
    "examples/flash_attention/fa_opt/flash_attn_bhsd_auto_pipeline_h32_d512.py": 21,
    "examples/sparse_flash_attention/example_sparse_flash_attn_gqa_pto.py": 9,
    "examples/sparse_flash_attention/example_sparse_flash_attn_mask_pa.py": 22,
    "examples/flash_attention/fa_opt/flash_attn_bhsd_expert_h16_d128.py": 11,
    "examples/sparse_flash_attention/example_sparse_flash_attn_gqa.py": 9,
    "examples/flash_attention/fa_opt/flash_attn_bhsd_auto_pipeline_h16_d128.py": 11,
    "examples/sparse_flash_attention/example_sparse_flash_attn_gqa_pto_developer.py": 9,
    "examples/xllm_kernels/split_qkv_rmsnorm_mrope.py": 1,
    "examples/pipeline/sparse_flash_attn_gqa_pipeline.py": 9,
    "examples/pipeline/sparse_flash_attn_gqa_pipeline_pto.py": 9,
    "examples/developer_mode/sparse_flash_attn_developer.py": 7,
    "examples/developer_mode/sparse_flash_attn_developer_vid_reduce.py": 7,
    "examples/fused_sigmoid_gating_delta_rule/fused_sigmoid_gating_delta_rule_varlen.py": 4,
}


#: GiB of a file whose own reference takes most of its time.
LARGE_REFERENCE = 10


def files(clone: Path) -> Iterator[str]:
    """The Python files of the suite, by their path in the clone."""
    for folder in ("testing/python", "examples"):
        for path in sorted((clone / folder).rglob("*.py")):
            if not any(part.startswith((".", "__pycache__")) for part in path.parts):
                yield path.relative_to(clone).as_posix()


def in_order(chosen: list[str]) -> list[str]:
    """`chosen` in the order in which they are best started."""
    first = [file for file in HEAVY if file in chosen]
    return [*first, *(file for file in chosen if file not in HEAVY)]


def threads_of(file: str) -> int:
    """Threads for the torch operations of `file`: two for large references, beside which there is
    memory for little else."""
    return 2 if HEAVY.get(file, 0) > LARGE_REFERENCE else 1


def reason_not_judged(clone: Path, file: str) -> str | None:
    """Why `file` has no verdict, or None when it gets one."""
    for pattern, reason in NOT_JUDGED.items():
        if fnmatch.fnmatch(file, pattern):
            return reason
    text = (clone / file).read_text(encoding="utf-8", errors="replace")
    return None if "tilelang" in text else "does not use tilelang"


def judge_of(file: str) -> Judge:
    """How `file` is judged: the first pattern that fits."""
    for pattern, judge in JUDGES.items():
        if fnmatch.fnmatch(file, pattern):
            return judge
    return _OWN
