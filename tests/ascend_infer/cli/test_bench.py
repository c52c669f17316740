"""`bench op` on the simulated NPU: counts, the ledger, and what is refused."""

from __future__ import annotations

import json

import pytest

from ascend_infer.cli import main
from profiling.ledger import read

OPS = ("--op", "rms_norm", "--op", "paged_decode_attention", "--max-bytes", "1300000")


def test_counts_and_the_ledger(capsys, tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    assert main(["bench", "op", "--device", "sim", *OPS, "--json", "--ledger", str(ledger)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["conditions"]["missing"] == [] and found["copy_bandwidth"] is None
    figures = found["figures"]
    assert {f["operator"] for f in figures} == {"rms_norm", "paged_decode_attention"}
    for figure in figures:
        assert figure["evidence"] == "simulated" and figure["timing"] is None
        assert figure["implementation"] == "sim" and sum(figure["cycles"].values()) > 0
        exact = figure["operator"] == "rms_norm"  # attention passes scores through a workspace
        assert (figure["moved_bytes"] == figure["min_bytes"]) is exact
        assert figure["moved_bytes"] >= figure["min_bytes"]
    entries = list(read(ledger))
    assert [e.figures["moved_bytes"] for e in entries] == [f["moved_bytes"] for f in figures]


def test_the_table_names_the_evidence(capsys):
    assert main(["bench", "op", "--device", "sim", "--op", "rms_norm", "--max-bytes", "5000"]) == 0
    printed = capsys.readouterr().out
    assert "rms_norm  smollm2-135m-decode-1" in printed and "simulated" in printed
    assert " us" not in printed and "Not comparable" not in printed


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--device", "cpu"], "AI-BENCH-008"),
        (["--device", "sim", "--graph"], "AI-BENCH-007"),
        (["--device", "sim", "--op", "nothing"], "AI-CLI-001"),
        (["--device", "sim", "--max-bytes", "1"], "AI-BENCH-007"),
        (["--device", "sim", *OPS, "--ledger", "/nowhere/ledger"], "AI-BENCH-006"),
        (["--repetitions", "0"], "AI-CLI-006"),
    ],
)
def test_refusals(capsys, arguments, code):
    assert main(["bench", "op", *arguments, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code
