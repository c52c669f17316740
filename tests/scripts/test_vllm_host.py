"""What replaces the host's compiled kernel, and the table of changes; without the host."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from vllm_host import __main__ as command
from vllm_host import tiny_model
from vllm_host.changes import (
    AS_PLUGIN,
    AT_IMPORT_OF_TORCH,
    HOSTS,
    Change,
    apply,
    installed_host,
    of_host,
)
from vllm_host.slot_mapping import SlotMapping

from ascend_infer.verification.vllm.engine import Decoded, EngineEnded
from kernels_npu.sim import device as simulated
from profiling.child_process import Ended

PAD = -1


def slots_by_loop(starts, positions, table, block, slots, num_tokens):
    """Token by token, as the Triton kernel's programs do it."""
    expected = slots.clone()
    expected[num_tokens:] = PAD
    for request in range(len(starts) - 1):
        for token in range(starts[request], starts[request + 1]):
            position = int(positions[token])
            expected[token] = table[request, position // block] * block + position % block
    return expected


@pytest.mark.parametrize("lengths, padding", [([3, 1, 5], 0), ([1], 3), ([2, 0, 4, 1], 2), ([], 2)])
def test_slots_are_those_of_the_block_table(lengths, padding):
    simulated.enable()
    block, rows, capacity = 4, 6, 20
    starts = torch.tensor([0, *lengths]).cumsum(0).int()
    num_tokens = int(starts[-1]) + padding
    positions = torch.randint(0, 5 * block, (num_tokens,))
    table = torch.randint(0, 99, (rows, 5), dtype=torch.int32)
    slots = torch.randint(0, 50, (capacity,), dtype=torch.int32)
    on_device = slots.npu()
    SlotMapping()[(len(lengths) + 1,)](
        num_tokens,
        capacity,
        starts.npu(),
        positions.npu(),
        table.npu(),
        table.stride(0),
        block,
        on_device,
        TOTAL_CP_WORLD_SIZE=1,
        TOTAL_CP_RANK=0,
        CP_KV_CACHE_INTERLEAVE_SIZE=1,
        PAD_ID=PAD,
        BLOCK_SIZE=1024,
    )
    expected = slots_by_loop(starts.tolist(), positions, table, block, slots, num_tokens)
    assert torch.equal(on_device.cpu(), expected)


def test_context_parallelism_is_refused():
    launch = SlotMapping()[(2,)]
    with pytest.raises(NotImplementedError, match="context parallelism"):
        launch(1, 1, None, None, None, 1, 1, None, TOTAL_CP_WORLD_SIZE=2, PAD_ID=PAD)


def test_each_change_is_made_once_and_says_why():
    made = []
    change = Change(what="test.name", why="a reason", apply=lambda: made.append(1))
    apply([change, change])
    apply([change])
    assert made == [1]
    table = [*AT_IMPORT_OF_TORCH, *AS_PLUGIN]
    assert len({c.what for c in table}) == len(table) and all(len(c.why) > 30 for c in table)
    assert all(c.hosts and set(c.hosts) <= set(HOSTS) for c in table)
    for host in HOSTS:
        chosen = of_host(AS_PLUGIN, host)
        assert [c for c in AS_PLUGIN if host in c.hosts] == chosen and len(chosen) < len(AS_PLUGIN)


@pytest.mark.parametrize(
    ("vllm", "ascend", "host"),
    [
        ("0.23.0+empty", "0.23.0.post1", "0.23.0"),
        ("0.18.0", "0.18.0+local", "0.18.0"),
        ("0.18.0", "0.23.0.post1", None),
        ("0.24.0", "0.24.0rc1", None),
        ("0.23.0", "0.23.0", None),
    ],
)
def test_the_table_is_for_the_pairs_that_it_names(vllm, ascend, host, monkeypatch):
    versions = {"vllm": vllm, "vllm_ascend": ascend}
    monkeypatch.setattr("importlib.metadata.version", versions.__getitem__)
    if host is not None:
        assert installed_host() == host
        return
    with pytest.raises(RuntimeError) as error:
        installed_host()
    assert vllm in str(error.value) and ascend in str(error.value)
    assert "0.18.0 with 0.18.0, 0.23.0 with 0.23.0.post1" in str(error.value)


@pytest.mark.parametrize("token, status", [(4, 0), (5, 1)])
def test_the_command_compares_what_a_run_gives(token, status, monkeypatch, capsys):
    """With a host of one line, whose result has more in it than the command shows."""
    counts = {"captures": 3, "task_groups": 6, "replays": 7, "task_updates": 14}

    def run(request, log, *, limit_s):
        tokens = [[[token] * request.new_tokens for _ in request.rounds[0]]]
        rest = {"scores": [], "model": {}, "plugin": {}, "metrics": {}, "wall_s": {}}
        return Decoded(tokens=tokens, start=counts, serving=counts, **rest)

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(tiny_model, "write", lambda folder: None)
    monkeypatch.setattr(tiny_model, "greedy", lambda f, prompts, n: [[4] * n for _ in prompts])
    arguments = ["--mode", "FULL", "--prompt-lengths", "1,3", "--new-tokens", "2"]
    monkeypatch.setattr(sys, "argv", ["vllm-sim", *arguments, "--json"])
    assert command.main() == status
    result = json.loads(capsys.readouterr().out)
    assert result["evidence"] == "simulated"
    (found,) = result["runs"]
    assert found["mode"] == "FULL" and found["equal"] is (status == 0)
    assert found["serving"]["task_updates"] == 14
    monkeypatch.setattr(sys, "argv", ["vllm-sim", *arguments])
    assert command.main() == status
    assert ("equal" if status == 0 else "DIFFERENT") in capsys.readouterr().out


def test_a_host_that_ends_without_a_result_is_an_error_with_its_log(monkeypatch, capsys):
    def run(request, log, *, limit_s):
        log.write_text("first line\nlast line")
        raise EngineEnded(Ended(status=1, timed_out=False), log, limit_s)

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(tiny_model, "write", lambda folder: None)
    monkeypatch.setattr(tiny_model, "greedy", lambda *args: [])
    monkeypatch.setattr(sys, "argv", ["vllm-sim", "--mode", "eager"])
    assert command.main() == 2
    printed = capsys.readouterr().err
    assert "last line" in printed and "error: vLLM ended without a result: exit code 1" in printed


@pytest.mark.parametrize("lengths", ["0", "1,481", "x", ","])
def test_lengths_that_no_engine_takes_are_wrong_use(lengths, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["vllm-sim", "--prompt-lengths", lengths])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert "--prompt-lengths" in capsys.readouterr().err


@pytest.mark.parametrize(("named", "count"), [("0,1,2", 3), ("5", 2), ("", 8), (None, 8)])
def test_as_many_devices_as_the_host_names(named, count, monkeypatch):
    made = []
    monkeypatch.setattr(simulated, "enable", lambda device_count: made.append(device_count))
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)
    if named is not None:
        monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", named)
    (change,) = (c for c in AT_IMPORT_OF_TORCH if c.what == "torch.npu, torch_npu")
    change.apply()
    assert made == [count]
