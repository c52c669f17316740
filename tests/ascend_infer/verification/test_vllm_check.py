"""`vllm verify` on a vLLM of a few lines: requests, results, and every way an engine may end."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ascend_infer import cli
from ascend_infer.verification.vllm import check
from ascend_infer.verification.vllm.check import VllmOptions, verify_vllm
from ascend_infer.verification.vllm.engine import EngineEnded, Request, graph_mode, run
from ascend_infer.vllm_plugin.host import ASCEND, Host
from kernels_npu.errors import EnvironmentProblem, UsageError

#: Each engine reports logits that depend on the prompt, and what `FAULT` changes of them.
FAKE_VLLM = """
import json, os, time
from types import SimpleNamespace

NAMES = ("ops", "on_refusal")

class SamplingParams:
    def __init__(self, **values):
        self.__dict__.update(values)

class LLM:
    def __init__(self, model, **arguments):
        ours = os.environ["ASCEND_INFER_VLLM_OPS"] != "off"
        self.fault = os.environ.get("FAULT", "") if ours or os.environ.get("ALWAYS") else ""
        asked = {name: os.environ.get("ASCEND_INFER_VLLM_" + name.upper()) for name in NAMES}
        print(json.dumps({**asked, **arguments}), flush=True)
        if self.fault == "raises":
            raise RuntimeError("no kernel for this")
        if self.fault == "invalid":
            raise ValueError("1 validation error for ModelConfig\\n  Value error, no such dtype")
        open(os.path.join(os.environ["VLLM_RPC_BASE_PATH"], "socket"), "w").close()
        if self.fault == "hangs":
            time.sleep(60)
        if self.fault == "exits":
            os._exit(0)
        config = SimpleNamespace(num_hidden_layers=2)
        model_config = SimpleNamespace(dtype="torch.float16", hf_text_config=config)
        self.llm_engine = SimpleNamespace(model_config=model_config)

    def collective_rpc(self, method):
        if method.__name__ == "take_counts":
            return [json.loads(os.environ.get("COUNTS", "null"))]
        if method.__name__ == "has_full_graphs":
            return [os.environ.get("GRAPHS", "full") == "full"]
        ours = os.environ["ASCEND_INFER_VLLM_OPS"].split(",")
        names = ["rms_norm", "attention"]
        ops = {op: {"asked": op in ours or "all" in ours, "refusal": None} for op in names}
        layers = {op: {"ascend-infer": 2} for op in names if ops[op]["asked"]}
        calls = {"ascend-infer": 9, "step of PrefillNoCache": 4} if "attention" in layers else {}
        if self.fault == "refused":
            ops["rms_norm"]["refusal"], layers["rms_norm"] = "another text", {}
        if self.fault == "host":
            layers["rms_norm"] = {"the norm has a bias": 2}
        if self.fault == "partly":
            layers["attention"]["sliding window"] = 1
        if self.fault == "not called":
            calls.pop("ascend-infer")
        loaded = self.fault != "not loaded"
        if self.fault in ("not loaded", "no layers"):
            layers, calls = {}, {}
        return [
            {
                "ops": ops,
                "layers": layers,
                "attention_calls": calls,
                "hooks_installed": loaded,
            }
        ]

    def generate(self, inputs, parameters, use_tqdm):
        return [self._output(i["prompt_token_ids"], parameters) for i in inputs]

    def _output(self, prompt, parameters):
        tokens, logprobs = [], []
        for step in range(parameters.max_tokens):
            logits = {t: float((len(prompt) * 7 + t * 13 + step) % 29) for t in range(9)}
            if self.fault == "wrong" and step == 2 and len(prompt) == 5:
                logits[int(step)] += 50.0
            tokens.append(max(logits, key=logits.get))
            logprobs.append({t: SimpleNamespace(logprob=x) for t, x in logits.items()})
        out = SimpleNamespace(token_ids=tokens, logprobs=logprobs if parameters.logprobs else None)
        return SimpleNamespace(outputs=[out])

    def get_metrics(self):
        return []
"""
PACKAGES = {
    "vllm/__init__.py": FAKE_VLLM,
    "vllm/platforms.py": "class current_platform:\n    device_type = 'npu'\n",
    "vllm/v1/__init__.py": "",
    "vllm/v1/metrics/__init__.py": "",
    "vllm/v1/metrics/reader.py": "class Counter:\n    pass\n",
}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with the vLLM above and a model's folder, which is returned."""
    for name, text in PACKAGES.items():
        path = tmp_path / "packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "packages"), *sys.path]))
    monkeypatch.setattr(
        check, "installed", lambda: Host(kind=ASCEND, version="0.23.0", vllm="0.23.0", package=None)
    )
    monkeypatch.setattr(check.tempfile, "tempdir", str(tmp_path / "kept"))
    (tmp_path / "kept").mkdir()
    model = tmp_path / "model"
    model.mkdir()
    config = {"model_type": "llama", "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 2}
    (model / "config.json").write_text(json.dumps(config))
    return model


def asked(model, **changed):
    values = {"modes": ("FULL",), "lengths": (1, 5), "new_tokens": 4, "batch": 3, **changed}
    return VllmOptions(model=str(model), **values)


def test_the_same_logits_pass_in_each_mode_and_nothing_is_kept(host, tmp_path):
    report = verify_vllm(asked(host, modes=("eager", "FULL")))
    assert report.passed and report.device == "npu" and not report.notes
    checks = [(r.subject, r.check) for r in report.results]
    per_mode = ["tokens", "rms_norm", "attention", "decode attention"]
    assert checks == [(mode, name) for mode in ("eager", "FULL") for name in per_mode]
    assert {str(r.evidence) for r in report.results} == {"npu-measured"}
    compared = report.results[0].values["comparison"]
    # Two prompts at once, then batches of 1, 2, 3, 2 and 1.
    assert compared["sequences"] == 2 + 9 and compared["tokens"] == 11 * 4
    assert not list((tmp_path / "kept").iterdir())


@pytest.mark.parametrize(
    "fault, failing, detail",
    [
        ("wrong", "tokens", "step 2: token 2 instead of"),
        ("raises", "serves", "RuntimeError: no kernel for this"),
        ("invalid", "serves", "1 validation error for ModelConfig: Value error, no such dtype"),
        ("exits", "serves", "exit code 0"),
        ("refused", "rms_norm", "the host's serves: another text"),
        ("host", "rms_norm", "0 layers are ours; 2 are the host's: the norm has a bias"),
        ("not loaded", "plugin", "vLLM has not loaded it"),
        ("no layers", "plugin", "no layer of the model has an operator"),
        ("not called", "decode attention", "0 calls from the host are ours; 4 the host's"),
    ],
)
def test_what_goes_wrong_with_our_operators_fails_and_its_log_is_kept(
    fault, failing, detail, host, monkeypatch
):
    monkeypatch.setenv("FAULT", fault)
    monkeypatch.setenv("ASCEND_INFER_VLLM_ON_REFUSAL", "stop")  # a server's, not the check's
    report = verify_vllm(asked(host))
    (failed,) = [r for r in report.results if not r.passed]
    assert failed.check == failing and detail in failed.detail
    logs = Path(report.notes[0].rpartition(": ")[2])
    printed = json.loads((logs / "FULL.log").read_text().splitlines()[0])
    assert printed["ops"] == "all" and printed["on_refusal"] == "host"
    assert printed["logprobs_mode"] == "raw_logits"
    assert printed["compilation_config"] == {"cudagraph_mode": "FULL"}


@pytest.mark.parametrize(
    "updates, launches, fault, graphs, passes",
    [
        (0, 10, "", "full", True),
        (6, 10, "", "full", False),
        (6, 10, "partly", "full", True),
        (0, 0, "", "full", False),
        (0, 0, "", "pieces", True),
    ],
)
def test_on_the_simulated_device_replays_have_our_attention_and_update_nothing(
    updates, launches, fault, graphs, passes, host, monkeypatch
):
    launched = {"paged_decode_attention": launches}
    counts = {"replays": 5, "task_updates": updates, "replayed_launches": launched}
    monkeypatch.setenv("COUNTS", json.dumps(counts))
    monkeypatch.setenv("FAULT", fault)
    monkeypatch.setenv("GRAPHS", graphs)
    report = verify_vllm(asked(host))
    (found,) = [r for r in report.results if r.check == "decode attention"]
    assert found.passed is report.passed is passes
    assert f"5 replays with {launches} launches and {updates} task updates" in found.detail
    assert {str(r.evidence) for r in report.results} == {"simulated"}


def test_an_operator_that_is_named_must_serve(host, monkeypatch):
    monkeypatch.setenv("FAULT", "no layers")
    report = verify_vllm(asked(host, ops="attention"))
    (failed,) = [r for r in report.results if not r.passed]
    assert failed.check == "attention" and "no layer of the model" in failed.detail
    assert not verify_vllm(asked(host, ops="rms_norm,attention")).passed
    assert verify_vllm(asked(host, ops="off")).passed


def test_who_interrupts_leaves_nothing(host, tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        verify_vllm(asked(host))
    assert not list((tmp_path / "kept").iterdir())


def test_a_host_that_does_not_serve_by_itself_is_an_error(host, monkeypatch):
    monkeypatch.setenv("FAULT", "raises")
    monkeypatch.setenv("ALWAYS", "1")
    with pytest.raises(EnvironmentProblem, match="no kernel for this") as raised:
        verify_vllm(asked(host))
    assert raised.value.code == "AI-VLLM-006" and "stock-eager.log" in str(raised.value)


def test_an_engine_that_hangs_ends_at_its_limit(host, tmp_path, monkeypatch):
    monkeypatch.setenv("FAULT", "hangs")
    monkeypatch.setenv("ASCEND_INFER_VLLM_OPS", "all")
    request = Request(engine={"model": "m", **graph_mode("FULL", [1])}, rounds=[], new_tokens=2)
    with pytest.raises(EngineEnded, match="no result within 3 s") as raised:
        run(request, tmp_path / "log", limit_s=3)
    assert json.loads(raised.value.printed.splitlines()[0])["compilation_config"] == {
        "cudagraph_mode": "FULL",
        "cudagraph_capture_sizes": [1],
    }


def test_the_engine_gets_room_for_a_batch_of_the_longest_and_what_the_user_adds(host, monkeypatch):
    monkeypatch.setenv("FAULT", "wrong")  # keeps the logs
    extra = {"tensor_parallel_size": 2, "max_model_len": 512}
    report = verify_vllm(asked(host, lengths=(5, 124), engine=extra, dtype="bfloat16"))
    logs = Path(report.notes[0].rpartition(": ")[2])
    stock, ours = (
        json.loads((logs / name).read_text().splitlines()[0])
        for name in ("stock-eager.log", "FULL.log")
    )
    assert stock.pop("ops") == "off" and stock.pop("enforce_eager") is True
    assert stock.pop("on_refusal") is None and ours.pop("on_refusal") == "host"
    assert ours.pop("ops") == "all" and ours.pop("compilation_config")
    assert stock == ours
    assert ours["num_gpu_blocks_override"] == 3 * 1 + 1 and ours["max_num_seqs"] == 3
    assert ours["tensor_parallel_size"] == 2 and ours["max_model_len"] == 512
    assert ours["dtype"] == "bfloat16"


def test_wrong_use_has_a_code(host, monkeypatch):
    with pytest.raises(UsageError) as wrong:
        verify_vllm(asked(host, ops="rms_nrm"))
    assert wrong.value.code == "AI-VLLM-001"
    with pytest.raises(UsageError) as missing:
        verify_vllm(asked(host / "none"))
    assert missing.value.code == "AI-MODEL-005" and "export-model" in str(missing.value)
    (host / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UsageError, match="vocab_size None") as no_vocabulary:
        verify_vllm(asked(host))
    assert no_vocabulary.value.code == "AI-MODEL-001"
    monkeypatch.setattr(
        check, "installed", lambda: Host(kind=ASCEND, version="", vllm="", package=None)
    )
    with pytest.raises(EnvironmentProblem, match="not installed") as no_vllm:
        verify_vllm(asked(host))
    assert no_vllm.value.code == "AI-VLLM-006"


def test_the_command(host, monkeypatch, capsys):
    command = ["vllm", "verify", str(host), "--mode", "FULL", "--prompt-lengths", "1,5"]
    assert cli.main([*command, "--new-tokens", "3", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["passed"] and printed["scope"] == "vllm"
    assert {r["evidence"] for r in printed["results"]} == {"npu-measured"}
    monkeypatch.setenv("FAULT", "wrong")
    assert cli.main(command) == 1
    assert "FAILED" in capsys.readouterr().out


@pytest.mark.parametrize(
    "option", [["--engine", "[1]"], ["--engine", "{"], ["--tolerance", "-1"], ["--mode", "half"]]
)
def test_wrong_options_are_refused(option, capsys):
    assert cli.main(["vllm", "verify", "model", *option]) == 2
    assert "AI-CLI-006" in capsys.readouterr().err
