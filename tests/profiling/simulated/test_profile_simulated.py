"""Simulated launches as a profile: what is written is what is read, and what was counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels_npu.errors import UsageError
from kernels_npu.evidence import Evidence
from kernels_npu.spec import OpSpec, Workload, all_specs
from profiling import FileKind, manifest, read_profile
from profiling.analysis import kernel_totals, profile_sentences, traffic_of
from profiling.provenance import conditions_of
from profiling.records import OpProfile
from profiling.simulated import SimulatedRun, profile_simulated

#: Small, with a tail block and padding where the operator knows them.
_DIMS: dict[str, dict[str, Any]] = {
    "rms_norm": {"rows": 5, "hidden": 96},
    "add_rms_norm": {"rows": 3, "hidden": 128},
    "fused_add_rms_norm": {"rows": 3, "hidden": 128},
    "silu_and_mul": {"rows": 4, "inter": 160},
    "rotary_embedding": {"tokens": 3, "q_heads": 9, "kv_heads": 3, "head_dim": 64},
    "split_qkv_rmsnorm_rope": {"tokens": 3, "q_heads": 9, "kv_heads": 3, "head_dim": 64},
    "reshape_and_cache": {"tokens": 5, "kv_heads": 3, "head_dim": 64, "block_size": 32},
    "paged_decode_attention": {
        "q_heads": 9,
        "kv_heads": 3,
        "head_dim": 64,
        "block_size": 32,
        "seq_lens": (1, 40, 130),
    },
}


@pytest.fixture(scope="module", autouse=True)
def _npu() -> None:
    from kernels_npu.sim import device

    device.enable()


def launch(spec: OpSpec, dims: dict[str, Any]) -> None:
    from kernels_npu import ops

    generator = torch.Generator().manual_seed(1)
    workload = Workload(name="test", dims=dims)
    inputs = spec.make_inputs(workload, torch.float16, "cpu", generator)
    getattr(ops, spec.name)(
        **{k: v.to("npu") if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SimulatedRun]:
    """A profile of several kernels, one of them launched twice."""
    folder = tmp_path_factory.mktemp("profiles") / "OPPROF_sim"
    specs, told = all_specs(), {"model": "none, operators", "lengths": "none, rows"}
    with profile_simulated(folder, blocks=2, command=["python", "script.py"], settings=told) as run:
        for name in (*_DIMS, "rms_norm"):
            launch(specs[name], _DIMS[name])
        torch.ones(4, device="npu") + 1
    return folder, run


def cells(kernel: OpProfile) -> dict[FileKind, list[tuple[object, ...]]]:
    return {kind: [row.cells for row in table.rows] for kind, table in kernel.tables.items()}


def test_what_is_written_is_read_again(made: tuple[Path, SimulatedRun]) -> None:
    folder, run = made
    assert run.written and run.left_out == 0
    profile = read_profile(folder)
    assert profile.notes == ()
    assert [kernel.folder for kernel in profile.kernels] == sorted(
        [*(f"{name}/0" for name in _DIMS), "rms_norm/1"]
    )
    kept = {kernel.folder: kernel for kernel in run.kernels}
    for kernel in profile.kernels:
        ours = kept[kernel.folder]
        assert cells(kernel) == cells(ours) and kernel.info == ours.info
        for kind, table in kernel.tables.items():
            assert table.columns == ours.tables[kind].columns
            assert [row.line for row in table.rows] == [row.line for row in ours.rows(kind)]
    assert not list(folder.parent.glob(".*"))


def test_every_figure_has_its_level_and_none_is_a_time(made: tuple[Path, SimulatedRun]) -> None:
    profile = read_profile(made[0])
    for table in profile.tables:
        for column in table.columns:
            assert column.known, column.name
            values = [row[column.key] for row in table.rows]
            if column.unit in ("us", "GiB/s"):
                assert values == [None] * len(values)
            elif column.key == "rated_freq":
                assert column.evidence is Evidence.VENDOR_REPORTED
            elif column.unit == "cycles" or column.key.endswith("_ratio"):
                assert column.evidence is Evidence.MODELLED
            else:
                assert column.evidence is Evidence.SIMULATED
    (trace,) = profile.traces
    assert (trace.evidence, trace.unit) == (Evidence.MODELLED, "cycles")
    (origin,) = profile.manifests
    assert origin == manifest.read(made[0])
    assert (origin.evidence, origin.made_by) == (Evidence.SIMULATED, "simulated NPU")
    assert origin.command == ("python", "script.py")
    assert origin.settings["soc"] == "Ascend910B1"
    conditions = conditions_of(profile, aggregation="one launch", baseline="none")
    assert conditions.missing == () and conditions.model == "none, operators"
    assert "add" in origin.settings["operators_not_counted"]


@pytest.mark.parametrize("name", _DIMS)
def test_bytes_are_those_of_the_operators_formulas(
    made: tuple[Path, SimulatedRun], name: str
) -> None:
    spec = all_specs()[name]
    formula = spec.traffic(Workload(name="test", dims=_DIMS[name]), "float16").values()
    kernel = next(k for k in read_profile(made[0]).kernels if k.name == name)
    traffic = traffic_of(kernel)
    assert traffic is not None
    assert traffic.read == sum(t.read for t in formula if not t.scalar)
    assert traffic.written == sum(t.written for t in formula if not t.scalar)
    assert sum(traffic.paths.values()) == traffic.total == traffic.whole.value


def test_attention_fills_the_columns_of_both_kinds_of_cores(
    made: tuple[Path, SimulatedRun],
) -> None:
    dims, spec = _DIMS["paged_decode_attention"], all_specs()["paged_decode_attention"]
    kernel = next(k for k in read_profile(made[0]).kernels if k.name == spec.name)
    memory = kernel.rows(FileKind.MEMORY)
    for row in memory:
        cube = row["sub_block_id"] == "cube0"
        assert (row["gm_to_l1_datas_kb"] is None, row["gm_to_ub_datas_kb"] is None) == (
            not cube,
            cube,
        )
    workload = Workload(name="test", dims=dims)
    read = sum(row.number("gm_to_l1_datas_kb") or 0.0 for row in memory) * 1024
    formula = spec.traffic(workload, "float16")
    from_cube = ("query", "key_cache", "value_cache", "workspace_p")
    assert read == sum(formula[name].read for name in from_cube)
    # whole fractals: 3 query heads of a KV head take the 16 rows of one
    products = sum(dims["seq_lens"]) * dims["q_heads"] * 4 * dims["head_dim"]
    fops = sum(f.number or 0 for _, f in kernel.figures(FileKind.ARITHMETIC, "aic_cube_fops"))
    assert fops >= products * 16 / 3 and fops % 8192 == 0


def test_rows_are_the_blocks_cores(made: tuple[Path, SimulatedRun]) -> None:
    kernel = next(k for k in read_profile(made[0]).kernels if k.folder == "rms_norm/0")
    assert kernel.info is not None
    assert (kernel.info.block_dim, kernel.info.mix_block_dim) == (3, 6)
    rows = [(row["block_id"], row["sub_block_id"]) for row in kernel.rows(FileKind.PIPE)]
    assert rows == [(block, core) for block in range(3) for core in ("vector0", "vector1")]
    task = kernel.info_figure("task_cycles")
    assert task is not None and task.value == max(
        figure.value for _, figure in kernel.figures(FileKind.PIPE, "aiv_total_cycles")
    )


def test_the_kernel_that_moves_most_is_named(made: tuple[Path, SimulatedRun]) -> None:
    profile = read_profile(made[0])
    totals = {total.name: total for total in kernel_totals(profile)}
    assert totals["rms_norm"].launches == 2
    most = max(totals.values(), key=lambda total: total.gm_bytes or 0)
    sentence = next(s for s in profile_sentences(profile) if s.topic == "bytes")
    assert sentence.text.startswith(f"{most.name} moves most bytes")
    assert f"{most.gm_bytes:,.0f} of" in sentence.text
    assert "not counted: " in sentence.rule and "add" in sentence.rule
    assert sentence.refs[0].evidence is Evidence.SIMULATED


def test_launches_beyond_the_limit_are_told(tmp_path: Path) -> None:
    spec = all_specs()["rms_norm"]
    with profile_simulated(tmp_path / "p", launches=2) as run:
        for _ in range(3):
            launch(spec, _DIMS["rms_norm"])
    assert (len(run.kernels), run.left_out) == (2, 1)
    assert "left out: 1 launches" in run.summary()
    profile = read_profile(tmp_path / "p")
    assert profile.manifests[0].settings["launches_left_out"] == "1"
    assert "1 later launches are not in the profile" in profile_sentences(profile)[0].rule


def test_an_error_in_the_body_loses_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with profile_simulated(tmp_path / "p"):
            launch(all_specs()["rms_norm"], _DIMS["rms_norm"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert len(read_profile(tmp_path / "p").kernels) == 1


def test_without_launches_there_is_no_folder(tmp_path: Path) -> None:
    with profile_simulated(tmp_path / "p") as run:
        pass
    assert not run.written and list(tmp_path.iterdir()) == []
    assert json.loads(json.dumps(run.to_dict()))["folder"] is None


@pytest.mark.parametrize("place", ["full", "file", "missing/p"])
def test_a_folder_that_cannot_be_written_is_said_first(tmp_path: Path, place: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept").touch()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="AI-CLI-004"), profile_simulated(tmp_path / place):
        raise AssertionError("not reached")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "full", "kept"]


@pytest.mark.parametrize("limits", [{"launches": 0}, {"blocks": 0}])
def test_limits_below_one(tmp_path: Path, limits: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="AI-CLI-001"), profile_simulated(tmp_path / "p", **limits):
        raise AssertionError("not reached")
