"""The report: what was found in a run of many launches, in memory, as JSON and in words."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim import collect_report, configure
from kernels_npu.sim.config import SimConfig
from kernels_npu.sim.frontend import JITKernel, T, tilelang
from kernels_npu.sim.machine import GmArg, HazardError
from kernels_npu.sim.machine.findings import Finding

TILES, N = 4, 64


def unordered(blocks: int) -> Any:
    """Nothing orders the store after the load."""

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def kernel(
            x: T.Tensor((blocks, TILES, N), "float32"), y: T.Tensor((blocks, TILES, N), "float32")
        ):
            with T.Kernel(blocks, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, N], "float32")
                with T.Scope("V"):
                    for i in T.serial(TILES):
                        T.copy(x[cid, i, :], a)
                        T.copy(a, y[cid, i, :])
                        T.barrier_all()

        return kernel

    return factory()


def arguments(blocks: int, rng: np.random.Generator) -> list[GmArg]:
    x = rng.standard_normal((blocks, TILES, N), dtype=np.float32)
    return [
        GmArg(v.view(np.uint8).reshape(-1), v.shape, "float32", name)
        for name, v in (("x", x), ("y", np.zeros_like(x)))
    ]


def test_one_mistake_in_loops_blocks_and_launches_is_one_finding(rng: np.random.Generator) -> None:
    kernel = unordered(3).compiled
    with configure(on_finding="report"), collect_report() as report:
        for _ in range(5):
            kernel.launch(arguments(3, rng))
    (finding,) = report.findings
    assert finding.count == 5 * 3 * TILES
    assert report.failed and report.count("error") == 1 and report.count("warning") == 0
    assert report.kernels["kernel"].launches == 5


def test_the_json_form_holds_both_accesses_and_the_lines_to_add(rng: np.random.Generator) -> None:
    with configure(on_finding="report"), collect_report() as report:
        unordered(1).compiled.launch(arguments(1, rng))
    told = json.loads(json.dumps(report.to_dict()))
    assert told["schema_version"] == 1
    (finding,) = told["findings"]
    assert (finding["code"], finding["severity"], finding["check"]) == (
        "AI-RACE-001",
        "error",
        "races",
    )
    assert finding["rule"] and finding["fix"] and finding["count"] == TILES
    load, store = finding["accesses"]
    common = {"memory": "UB", "tensor": "a", "start": 0, "stop": 4 * N, "block": 0, "core": "aiv0"}
    assert common.items() <= load.items() and common.items() <= store.items()
    assert (load["kind"], load["pipe"], load["operation"]) == ("write", "MTE2", "copy")
    assert (store["kind"], store["pipe"], store["operation"]) == ("read", "MTE3", "copy")
    assert load["file"] == store["file"] == finding["file"] == __file__
    assert store["line"] == load["line"] + 1 == finding["line"]
    added = [(line["line"], line["where"], line["code"]) for line in finding["insertions"]]
    assert added == [
        (load["line"], "after", 'T.set_flag("mte2", "mte3", 0)'),
        (store["line"], "before", 'T.wait_flag("mte2", "mte3", 0)'),
    ]


def test_the_error_of_a_launch_says_what_where_and_what_to_do(rng: np.random.Generator) -> None:
    with pytest.raises(HazardError) as raised:
        unordered(1).compiled.launch(arguments(1, rng))
    error = raised.value
    assert error.code == "AI-RACE-001" and error.where is not None and error.where.file == __file__
    assert error.rule and error.fix and "T.set_flag" in error.fix
    assert "PIPE_MTE2 Write of UB of a" in error.what and "(4 times)" in error.what
    assert [f.code for f in error.findings] == ["AI-RACE-001"]


def test_reports_of_nested_blocks_are_apart(rng: np.random.Generator) -> None:
    kernel = unordered(1).compiled
    with configure(on_finding="report"), collect_report() as outer:
        with collect_report() as inner:
            kernel.launch(arguments(1, rng))
        kernel.launch(arguments(1, rng))
    assert (outer.findings[0].count, inner.findings[0].count) == (2 * TILES, TILES)


def test_findings_print_one_fact_per_line(launch: Callable[..., Any]) -> None:
    finding = Finding(
        code="AI-SYNC-003",
        severity="warning",
        message="flag V->MTE3 event 0 is still set",
        kernel="kernel",
        details=("a detail",),
        count=12345,
    )
    title, *body = str(finding).splitlines()
    assert title == (
        "WARNING AI-SYNC-003: flag V->MTE3 event 0 is still set in kernel (12,345 times)"
    )
    assert body[0] == "  a detail" and body[1].startswith("  rule: ") and len(body) == 3


def test_rows_narrower_than_a_block_lie_as_the_source_says(rng: np.random.Generator) -> None:
    """The finding says what a device does; a report that goes on computes what was meant."""
    rows, width = 4, 16

    @T.prim_func
    def narrow(x: T.Tensor((rows, width), "uint8"), y: T.Tensor((rows, width), "uint8")):
        with T.Kernel(1, is_npu=True) as (_cid, _vid):
            a = T.alloc_ub((rows, width), "uint8")
            with T.Scope("V"):
                T.copy(x[0, 0], a)
                T.set_flag("mte2", "mte3", 0)
                T.wait_flag("mte2", "mte3", 0)
                T.copy(a, y[0, 0])

    values = rng.integers(0, 256, (rows, width), dtype=np.uint8)
    result = np.zeros_like(values)
    args = [
        GmArg(values.reshape(-1), values.shape, "uint8", "x"),
        GmArg(result.reshape(-1), result.shape, "uint8", "y"),
    ]
    record = JITKernel(narrow, out_idx=[1]).compiled.launch(args, SimConfig(on_finding="report"))
    assert {f.code for f in record.findings if f.severity == "error"} == {"AI-BOUND-003"}
    np.testing.assert_array_equal(result, values)
