"""What of a host's text and structure has drifted, on hosts of a few lines and on real releases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from contract_suite import __main__ as command
from contract_suite import download, host_facts, host_text
from contract_suite.packages import Package

from ascend_infer.vllm_plugin import pins
from ascend_infer.vllm_plugin.settings import OPS
from tests.contracts.made_up_host import HOST, VLLM, changed, release

ATTENTION = "vllm_ascend/attention/attention_v1.py"
UTILS, WORKER = "vllm_ascend/utils.py", "vllm_ascend/worker/worker.py"
RUNNER, PLATFORM = "vllm_ascend/worker/model_runner_v1.py", "vllm_ascend/platform.py"
CUSTOM_OP = "vllm/model_executor/custom_op.py"
WHATS = sorted({what for depends in pins.DEPENDS[host_text.HOST].values() for what in depends})


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """The command, with the small host pinned as releases 1.0 (older text) and 1.1."""
    older = changed(ATTENTION, "return output", "return -output")
    texts = {"1.0": older, "1.1": HOST}
    packages = {v: Package(release(tmp_path / "cache", v, files)) for v, files in texts.items()}
    hashes = {
        v: {what: pins.digest(host_text.text_of(p, what)) for what in WHATS}
        for v, p in packages.items()
    }
    monkeypatch.setattr(pins, "pinned", lambda: {host_text.HOST: hashes})
    monkeypatch.setattr(command, "pinned", lambda: {host_text.HOST: hashes})
    (tmp_path / "ours").mkdir()

    def call(*files, options=()):
        fixed = ["--root", str(tmp_path / "ours"), "--cache", str(tmp_path / "cache")]
        status = command.main([*map(str, files), *fixed, *options])
        return status, capsys.readouterr().out

    return call


def row(printed, start):
    (found,) = [line for line in printed.splitlines() if line.startswith(start)]
    return found.removeprefix(start).split()


def test_the_text_of_a_pinned_release_is_the_same_in_any_other(run, tmp_path):
    status, printed = run(release(tmp_path / "new", "2.0"), "vllm_ascend==1.0")
    assert status == 0
    assert row(printed, "text of attention") == ["same", "same"]
    assert row(printed, "the kernel's blocks have 128 tokens") == ["holds", "holds"]
    assert "vllm_ascend 2.0: 0 uses, passes" in printed


@pytest.mark.parametrize(
    ("files", "state", "operators"),
    [
        (changed(ATTENTION, "return output", "return output + 0"), "differs", {"attention"}),
        (changed("vllm_ascend/ops/layernorm.py", "forward_oot", "forward_npu"), "gone",
         {"rms_norm", "qk_norm_rope"}),
        (changed(UTILS, "for name", "for  name"), "differs",
         {"rms_norm", "rotary_embedding", "qk_norm_rope"}),
        ({k: v for k, v in HOST.items() if "platform" not in k}, "gone", {"attention"}),
        (changed(ATTENTION, "class Ascend", "clas Ascend"), "gone", {"attention"}),
    ],
)  # fmt: skip
def test_an_operator_drifts_with_what_it_depends_on(run, tmp_path, files, state, operators):
    status, printed = run(release(tmp_path / "new", "2.0", files))
    assert status == 1
    for op in OPS:
        assert row(printed, f"text of {op}") == [state if op in operators else "same"]


def test_a_pinned_release_is_held_against_its_own_text(run, tmp_path):
    """1.1 with the text of 1.0 has been edited, although both texts are known."""
    edited = changed(ATTENTION, "return output", "return -output")
    status, printed = run(release(tmp_path / "new", "1.1", edited))
    assert status == 1 and row(printed, "text of attention") == ["differs"]
    assert run(release(tmp_path / "new", "2.0", edited))[0] == 0


def test_a_difference_is_shown_against_the_nearest_pinned_release(run, tmp_path):
    files = changed(ATTENTION, "return output", "# new\n        return -output")
    out = tmp_path / "out.json"
    status, printed = run(
        release(tmp_path / "new", "2.0", files), options=["--diff", "--json", str(out)]
    )
    assert status == 1
    lines = printed.splitlines()
    assert any(line.startswith("--- 1.0 attention/attention_v1.py:") for line in lines)
    assert "+        # new" in lines and "-        return output" not in lines
    (found,) = json.loads(out.read_text())["releases"]
    states = {d["what"]: d for d in found["definitions"]}
    name = "attention/attention_v1.py:AscendAttentionBackendImpl.forward_impl"
    assert states[name]["nearest"] == "1.0" and states[name]["diff"]
    assert f"{name}: differs" in found["broken"]
    assert all(d["pinned"] == ["1.0", "1.1"] for w, d in states.items() if w != name)


@pytest.mark.parametrize(
    ("files", "what", "found"),
    [
        (changed(PLATFORM, "attention_v1.Ascend", "attention_v2.Ascend"), "names Ascend", "v2"),
        (changed(PLATFORM, "    @classmethod\n", ""), "names Ascend", "decorated with []"),
        (changed(ATTENTION, "[128]", "[64, 128]"), "have 128 tokens", "returns [64, 128]"),
        (changed(ATTENTION, "def get_supported", "def supported"), "have 128", "is not there"),
        (changed(UTILS, '"RMSNorm": 1, ', ""), "fills vLLM's table", "not register RMSNorm"),
        (changed(UTILS, "CustomOp.register_oot(", "add("), "fills vLLM's table", "it calls"),
        (changed(UTILS, "vllm_config=None", "kind, vllm_config"), "fills vLLM's", "it takes (kind"),
        (changed(WORKER, "        adapt_patch()\n", ""), "after the host's", "it calls register"),
        (changed(WORKER, "adapt_patch()\n        register_ascend_customop()",
                 "register_ascend_customop()\n        adapt_patch()"),
         "after the host's patches", "register_ascend_customop, adapt_patch"),
        (changed(WORKER, "from vllm_ascend.utils", "from vllm_ascend.ops"), "after the host's",
         "does not import"),
        (changed(RUNNER, "self.seq_lens.gpu[:2]", "self.seq_lens.gpu[:2].clone()"),
         "model runner's own buffer", ".clone()"),
        (changed("vllm_ascend/ops/register_custom_ops.py", "maybe_", "never_"), "that ours call",
         "not register maybe_chunk_residual"),
        (changed(RUNNER, "seq_lens=", "lens="), "model runner's own buffer", "given nowhere"),
        (changed(ATTENTION, "self.alibi_slopes = ", ""), "keeps what ours", "keep alibi_slopes"),
        (changed(ATTENTION, "kv_cache, attn_metadata", "attn_metadata, kv_cache"),
         "forward_impl is called as ours", "attn_metadata, kv_cache"),
        (changed(ATTENTION, "fast_build=False", "fast_build"), "build is called as ours", "takes"),
        (changed(ATTENTION, "cls, vllm_config", "cls, *, vllm_config"), "get_cudagraph", "takes"),
        (changed(CUSTOM_OP, "Duplicate op name", "again", VLLM), "that is taken", "again"),
        (changed(CUSTOM_OP, "return op_registry_oot[", "return ops[", VLLM), "is built", "ops"),
        (changed("vllm/v1/worker/worker_base.py", "load_general_plugins()", "pass", VLLM),
         "before the worker's class", "it calls resolve"),
    ],
)  # fmt: skip
def test_a_fact_that_does_not_hold_is_the_only_one(run, tmp_path, files, what, found):
    path = release(tmp_path / "new", "2.0", files)
    name = "vllm_ascend" if files.get("vllm_ascend/__init__.py") is not None else "vllm"
    (broken,) = [f for f in host_facts.facts(Package(path), name) if f.found]
    assert what in broken.what and found in broken.found
    status, printed = run(path)
    assert status == 1 and f"not so: {broken.what}: " in printed


def test_facts_hold_in_the_small_host_and_an_empty_one_has_none(tmp_path):
    for name, files in (("vllm_ascend", HOST), ("vllm", VLLM)):
        found = host_facts.facts(Package(release(tmp_path, "1.0", files)), name)
        assert len(found) >= 3 and not any(fact.found for fact in found)
        empty = {f"{name}/__init__.py": ""}
        found = host_facts.facts(Package(release(tmp_path, "1.1", empty)), name)
        assert all(fact.found for fact in found)
    assert host_facts.facts(Package(release(tmp_path, "1.0")), "torch_npu") == []


RELEASES = [name for name in download.RELEASES if name.startswith("vllm_ascend==")]


@pytest.mark.parametrize("requirement", RELEASES)
def test_pinned_releases_have_not_drifted(requirement):
    """Their files are fetched once and kept; without a package index there is nothing to see."""
    cache = Path.home() / ".cache" / "ascend-infer" / "contracts"
    try:
        package = Package(download.fetched(requirement, cache))
    except OSError as error:
        pytest.skip(f"cannot be fetched: {error}")
    version = requirement.partition("==")[2]
    assert {d.state for d in host_text.compare(package, version)} == {host_text.SAME}
    assert not [f for f in host_facts.facts(package, "vllm_ascend") if f.found]
