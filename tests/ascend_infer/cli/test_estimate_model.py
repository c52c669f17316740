"""`ascend-infer estimate weights|kv|roofline|step|capacity|boundary|quant|advice`."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from ascend_infer.cli import main

CONFIG = {
    "model_type": "qwen2",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}
#: Command -> the least it takes.
COMMANDS: dict[str, tuple[str, ...]] = {
    "weights": (),
    "kv": (),
    "roofline": ("--rows", "8"),
    "step": ("--batch", "4", "--context", "100"),
    "capacity": ("--context", "100,200"),
    "boundary": ("--step-ms", "3"),
    "quant": ("--weight-dtype", "int4"),
    "advice": ("--batch", "4", "--measured-ms", "2"),
}


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


class Runner:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def text(self, *arguments: str) -> str:
        assert main(["estimate", *arguments]) == 0
        return self.capsys.readouterr().out

    def json(self, *arguments: str, status: int = 0) -> Any:
        assert main(["estimate", *arguments, "--json"]) == status
        return json.loads(self.capsys.readouterr().out)

    def code(self, *arguments: str, status: int = 2) -> str:
        return str(self.json(*arguments, status=status)["error"]["code"])


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Runner:
    return Runner(capsys)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_estimate_states_its_evidence_and_formula(
    command: str, config: str, run: Runner
) -> None:
    arguments = (command, "--model", config, *COMMANDS[command])
    result = run.json(*arguments)
    assert result["evidence"] == "modelled" and result["formula"]
    assert isinstance(result["assumptions"], list)
    text = run.text(*arguments)
    assert "modelled" in text and "formula: " in text


def test_figures_agree_with_the_library(config: str, run: Runner) -> None:
    from ascend_infer.estimates import Work, estimate_step, load_decoder, roof_of, weight_ledger

    decoder = load_decoder(config)
    assert run.json("weights", "--model", config)["weights"]["parameters"] == (
        weight_ledger(decoder).parameters
    )
    step = run.json(
        "step", "--model", config, "--device", "H100", "--batch", "3", "--context", "50"
    )
    expected = estimate_step(decoder, Work.batch(3, 50), roof_of("H100"))
    assert step["step"]["seconds"] == expected.seconds
    prefill = run.json("step", "--model", config, "--prefill", "30", "--context", "50")
    assert prefill["step"]["rows"] == 30


def test_dtypes_are_separate(config: str, run: Runner) -> None:
    arguments = ("--weight-dtype", "int4", "--group-size", "32", "--scale-dtype", "float32")
    further = ("--zero-point-bits", "4", "--kv-dtype", "int8", "--kv-group-size", "0")
    dtypes = run.json("weights", "--model", config, *arguments, *further)["dtypes"]
    assert dtypes["weights"] == "int4, 32 per 32-bit scale and 4-bit zero point"
    assert dtypes["kv"] == "int8, one row per 32-bit scale"
    assert dtypes["activations"] == dtypes["kept"] == "bfloat16"
    # 2 KV heads of 8 elements, keys and values: 32 bytes, and 4 scales of 4 bytes.
    ledger = run.json("kv", "--model", config, *arguments, *further)["kv"]
    assert ledger["layers"][0]["token_bytes"] == 32 + 16


def test_capacity_fails_when_nothing_fits(config: str, run: Runner) -> None:
    arguments = ("capacity", "--model", config, "--context", "1000000")
    assert run.json(*arguments)["capacity"]["fits"]
    refused = run.json(*arguments, "--memory-gib", "0.0001", status=1)
    assert not refused["capacity"]["fits"]


def test_published_budget(run: Runner) -> None:
    arguments = ("--model", "qwen2.5-7b", "--device", "H100", "--parameters", "7.61e9")
    room = run.json("capacity", *arguments)["capacity"]
    assert f"{room['kv_budget'] / 2**30:.2f}" == "57.83"
    assert room["sequences"] == {"8192": 132, "131072": 8}


def test_sweep_has_every_combination(config: str, run: Runner) -> None:
    rows = run.json("step", "--model", config, "--sweep", "batch=1,8", "context=10,20,30")["sweep"]
    assert [(row["batch"], row["context"]) for row in rows] == [
        (batch, context) for batch in (1, 8) for context in (10, 20, 30)
    ]
    alone = run.json("step", "--model", config, "--batch", "8", "--context", "20")["step"]
    assert rows[4]["ms per step"] == pytest.approx(alone["seconds"] * 1e3)
    table = run.text("kv", "--model", config, "--sweep", "kv-dtype=bfloat16,int8")
    assert "2 estimates" in table and "bfloat16" in table


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "boundary"])
def test_every_estimate_can_be_swept(command: str, config: str, run: Runner) -> None:
    result = run.json(
        command, "--model", config, *COMMANDS[command], "--sweep", "weight-dtype=bfloat16,int8"
    )
    assert [row["weight-dtype"] for row in result["sweep"]] == ["bfloat16", "int8"]


@pytest.mark.parametrize(
    "sweep",
    ["batch", "batch=", "batch=0", "batch=x", "nonsense=1", "rows=1", "batch=1;2", "batch=1e3"],
)
def test_a_wrong_sweep_is_a_coded_error(sweep: str, config: str, run: Runner) -> None:
    assert run.code("step", "--model", config, "--sweep", sweep) == "AI-EST-006"


def test_sweeps_are_limited_and_name_options_once(config: str, run: Runner) -> None:
    many = ",".join(map(str, range(1, 102)))
    arguments = ("step", "--model", config, "--sweep")
    assert run.code(*arguments, f"batch={many}", f"context={many}") == "AI-EST-006"
    assert run.code(*arguments, "batch=1", "batch=2") == "AI-EST-006"


def test_plots_are_pictures(config: str, tmp_path: Path, run: Runner) -> None:
    pytest.importorskip("matplotlib")
    for name in ("plot.svg", "plot.png"):
        run.json(
            "step", "--model", config, "--sweep", "batch=1,8,64", "context=10,2000",
            "--plot", str(tmp_path / name),
        )  # fmt: skip
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    svg = ElementTree.parse(tmp_path / "plot.svg").getroot()
    assert svg.tag.endswith("svg")
    lines = [g for g in svg.iter() if str(g.get("id", "")).startswith("line2d")]
    assert len(lines) >= 2
    # Nothing but the two plots and the configuration is left.
    assert {path.name for path in tmp_path.iterdir()} == {"plot.svg", "plot.png", "config.json"}


def test_plots_that_cannot_be_drawn(config: str, tmp_path: Path, run: Runner) -> None:
    sweep = ("step", "--model", config, "--sweep", "batch=1,2", "--plot")
    assert run.code(*sweep, str(tmp_path / "plot.gif")) == "AI-CLI-001"
    assert run.code(*sweep, str(tmp_path / "missing" / "plot.png")) == "AI-CLI-004"
    assert run.code("step", "--model", config, "--plot", "plot.png") == "AI-CLI-003"
    # That is said before anything is estimated.
    late = ("step", "--model", config, "--sweep", "device=H100,no-such-chip", "--plot")
    assert run.code(*late, str(tmp_path / "plot.gif")) == "AI-CLI-001"
    assert run.code(*late, str(tmp_path / "missing" / "plot.png")) == "AI-CLI-004"


def test_a_missing_matplotlib_names_the_extra(
    config: str, tmp_path: Path, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plot = str(tmp_path / "plot.png")
    result = run.json("step", "--model", config, "--sweep", "batch=1,2", "--plot", plot, status=2)
    assert result["error"]["code"] == "AI-CLI-009"
    assert "ascend-infer[plot]" in result["error"]["fix"]


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("AI-EST-005", ("step", "--model", "no-such-model")),
        ("AI-DEV-010", ("step", "--device", "H300")),
        ("AI-DEV-014", ("step", "--device", "Kirin9030")),
        ("AI-DEV-014", ("step", "--device", "910A")),
        ("AI-EST-002", ("step", "--dtype", "int3")),
        ("AI-EST-003", ("step", "--tensor-parallel", "3")),
        ("AI-EST-001", ("step", "--context", "1" + "0" * 30)),
        ("AI-EST-001", ("step", "--bandwidth-tbs", "nan")),
        ("AI-EST-001", ("step", "--bandwidth-tbs", "-1")),
        ("AI-EST-001", ("step", "--peak-tflops", "0")),
        ("AI-EST-001", ("step", "--bandwidth-tbs", "1e-300")),
        ("AI-EST-001", ("step", "--peak-tflops", "1e300")),
        ("AI-EST-001", ("capacity", "--reserve", "1")),
        ("AI-EST-001", ("capacity", "--reserve", "nan")),
        ("AI-EST-001", ("capacity", "--memory-gib", "inf")),
        ("AI-EST-001", ("capacity", "--parameters", "nan")),
        ("AI-EST-001", ("capacity", "--device", "910B2C")),
        ("AI-EST-001", ("advice", "--measured-ms", "0")),
        ("AI-EST-001", ("advice", "--measured-ms", "nan")),
        ("AI-EST-001", ("advice", "--efficiency", "2")),
        ("AI-EST-001", ("boundary", "--boundary-us", "-1")),
        ("AI-EST-001", ("boundary", "--step-ms", "nan")),
        ("AI-CLI-003", ("step", "--prefill", "20", "--context", "10")),
        ("AI-CLI-003", ("quant", "--parameters", "5")),
        ("AI-CLI-006", ("step", "--batch", "0")),
        ("AI-CLI-006", ("step", "--batch", "-3")),
        ("AI-CLI-006", ("kv", "--context", "many")),
        ("AI-CLI-006", ("roofline", "--shapes", "3x")),
    ],
)
def test_absurd_options_are_coded_errors(
    code: str, arguments: tuple[str, ...], config: str, run: Runner
) -> None:
    if "--model" not in arguments:
        arguments = (*arguments, "--model", config)
    assert run.code(*arguments) == code


def test_estimates_import_neither_torch_nor_the_simulated_device() -> None:
    code = (
        "import sys; from ascend_infer.cli import main\n"
        "for what in ('step', 'advice', 'kv'):\n"
        "    assert main(['estimate', what, '--model', 'deepseek-v3', '--json']) == 0\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "numpy", "matplotlib", "kernels_npu.sim.device"}
    assert not heavy & set(done.stderr.split())
