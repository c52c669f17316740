"""What goes wrong where a plugin is careless, on the stock host; and what ours does there."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ascend_infer.vllm_plugin.calls import OURS
from tests.vllm.conftest import ENGINE_LIMIT_S, HOST
from tests.vllm.test_modes import LAYERS

FULL = "FULL_DECODE_ONLY"
#: A plugin of the test's own whose back end differs from ours in one method of the builder.
OTHER_BACKEND = """
from ascend_infer.vllm_plugin import attention as ours

class MetadataBuilder(ours.MetadataBuilder):
{method}

class Backend(ours.Backend):
    @staticmethod
    def get_builder_cls():
        return MetadataBuilder
"""
TAKES_OTHER_BACKEND = """
def register():
    from ascend_infer.vllm_plugin.ascend_hooks import BACKENDS
    BACKENDS.update(dict.fromkeys(BACKENDS, "other_backend.Backend"))
"""
#: This step's lengths, as a copy: what a graph reads is the copy of the step of its capture, which
#: is there as long as somebody keeps it.
COPIES_LENGTHS = """
    kept = []

    def build(self, *args, **kwargs):
        metadata = super().build(*args, **kwargs)
        metadata.device_seq_lens = metadata.device_seq_lens.clone()
        self.kept.append(metadata.device_seq_lens)
        return metadata
"""
#: A host that hands the builder new tensors in each step.
NEW_TENSORS = """
    kept = []

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        moved = common_attn_metadata.seq_lens.clone()
        self.kept.append(moved)
        common_attn_metadata.seq_lens = moved
        return super().build(common_prefix_len, common_attn_metadata, fast_build)
"""
#: What the host's own builder claims.
CLAIMS_ALWAYS = """
    @classmethod
    def get_cudagraph_support(cls, vllm_config, kv_cache_spec):
        return ours.AttentionCGSupport.ALWAYS
"""
#: As if loading a kernel were forbidden from the moment when a model is traced, run or captured;
#: `trials` are the plugin's.
BUILT_IN_TRIALS_ONLY = """
def register():
    from ascend_infer.vllm_plugin import trial
    from kernels_npu.sim import machine
    build, tried = machine.compile_kernel, trial._reason
    inside = []

    def reason(*arguments):
        inside.append(True)
        try:
            return tried(*arguments) if {trials} else None
        finally:
            inside.pop()

    def compile_kernel(func, **options):
        if not inside:
            raise RuntimeError(func.name + " is built outside of a trial")
        return build(func, **options)

    machine.compile_kernel, trial._reason = compile_kernel, reason
    from ascend_infer import vllm_plugin
    vllm_plugin.register(), vllm_plugin.register()  # a second load, and a third
"""


def test_lengths_of_one_step_are_found_by_vllm_verify(plugin, model, environment):
    variables = plugin(
        TAKES_OTHER_BACKEND, other_backend=OTHER_BACKEND.format(method=COPIES_LENGTHS)
    )
    options = ["--mode", FULL, "--dtype", "float16", "--prompt-lengths", "5,129", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "ascend_infer", "vllm", "verify", str(model), *options],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=2 * ENGINE_LIMIT_S,
        check=False,
    )
    assert done.returncode == 1, done.stderr[-6000:]
    failed = {r["check"]: r for r in json.loads(done.stdout)["results"] if not r["passed"]}
    assert set(failed) == {"tokens"}
    compared = failed["tokens"]["comparison"]
    assert compared["worst_ulps"] > 10 * compared["tolerance_ulps"]
    assert any(not d["tie"] and d["step"] > 0 for d in compared["divergences"])


def test_metadata_that_nobody_keeps_ends_the_engine(plugin, ours_fails, prompts):
    """Captured attention names the copy; the graph keeps its address and not its memory."""
    forgets = COPIES_LENGTHS.replace("self.kept.append", "id")
    variables = plugin(TAKES_OTHER_BACKEND, other_backend=OTHER_BACKEND.format(method=forgets))
    printed = ours_fails(FULL, [prompts], variables=variables)
    assert "AI-CAP-026" in printed and "error code is 507011" in printed


def test_metadata_that_moves_ends_the_engine(plugin, ours_fails, prompts):
    variables = plugin(TAKES_OTHER_BACKEND, other_backend=OTHER_BACKEND.format(method=NEW_TENSORS))
    assert "AI-VLLM-005: seq_lens was at 0x" in ours_fails(FULL, [prompts], variables=variables)


def test_a_kernel_for_decode_must_not_claim_prefill(plugin, ours, stock, prompts):
    """A prompt of three tokens alone fits a captured size of four."""
    rounds = [[prompts[1][:3]], prompts]
    expected = ours("eager", rounds)["tokens"]
    assert expected[1] == stock
    assert ours("FULL", rounds)["tokens"] == expected
    variables = plugin(
        TAKES_OTHER_BACKEND, other_backend=OTHER_BACKEND.format(method=CLAIMS_ALWAYS)
    )
    assert ours("FULL", rounds, variables=variables)["tokens"] != expected


def test_without_trials_kernels_are_built_where_none_may_be(plugin, ours_fails, prompts):
    """The twin of the next test, which forbids the same and has trials."""
    variables = plugin(BUILT_IN_TRIALS_ONLY.format(trials=False))
    assert "is built outside of a trial" in ours_fails(FULL, [prompts], variables=variables)


def test_batches_between_buckets_prefix_hits_and_beyond_the_largest(plugin, ours, stock, prompts):
    """No kernel is built for a bucket: those of the trials serve all."""
    rounds = [[0], [4, 5, 6, 7], [1, 2], list(range(8)), [7]]
    sizes = {"cudagraph_mode": FULL, "cudagraph_capture_sizes": [1, 2, 4, 8]}
    chosen = [*rounds, [i % 8 for i in range(12)]]
    found = ours(
        FULL,
        [[prompts[i] for i in r] for r in chosen],
        max_num_seqs=12,
        compilation_config=sizes,
        variables=plugin(BUILT_IN_TRIALS_ONLY.format(trials=True)),
    )
    assert found["tokens"] == [[stock[i] for i in r] for r in chosen]
    assert found["serving"]["task_updates"] == 0
    assert found["serving"]["eager_launches"]["paged_decode_attention"] >= LAYERS
    # Loaded more than once, replaced once: each layer decides for itself one time.
    assert found["plugin"]["layers"] == {
        "attention": {OURS: LAYERS},
        "qk_norm_rope": {OURS: LAYERS},
        "rms_norm": {OURS: 4 * LAYERS + 1},
        "rotary_embedding": {OURS: 1},
    }


DUPLICATES = """
import json, sys
from vllm.model_executor.custom_op import CustomOp, op_registry_oot
host_first = sys.argv[1] == "host"

def plugin():
    @CustomOp.register_oot(name="RMSNorm")
    class Mine:
        pass

def host():
    import vllm_ascend.ops
    from vllm_ascend.utils import register_ascend_customop
    register_ascend_customop()

try:
    for register in (host, plugin) if host_first else (plugin, host):
        register()
except AssertionError as error:
    print(json.dumps(str(error)))
"""
COLD = """
import json
try:
    import vllm_ascend.attention.attention_v1
    print(json.dumps("imported"))
except ImportError as error:
    print(json.dumps(str(error)))
"""
IN_A_CIRCLE = "cannot import name 'DeviceOperator' from partially initialized module"
OURS_COLD = """
import json
from ascend_infer.vllm_plugin.attention import Backend
print(json.dumps(Backend.get_name()))
"""


@pytest.mark.parametrize(
    ("program", "argument", "says"),
    [
        (DUPLICATES, "host", "Duplicate op name: RMSNorm"),
        (DUPLICATES, "plugin", "Duplicate op name: RMSNorm"),
        (COLD, "", "imported" if HOST == "0.18.0" else IN_A_CIRCLE),
        (OURS_COLD, "", "CUSTOM"),
    ],
    ids=["host registers first", "plugin registers first", "cold import", "our import"],
)
def test_ways_into_the_host_that_fail_and_ours(program, argument, says, environment):
    done = subprocess.run(
        [sys.executable, "-c", program, argument],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    assert lines, done.stderr[-3000:]
    assert says in json.loads(lines[-1])
