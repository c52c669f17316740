"""Enabling the device, in fresh processes: versions, other back ends, unmodified scripts."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from kernels_npu.errors import EnvironmentProblem, UsageError
from kernels_npu.sim import device as simulated
from kernels_npu.sim.device import setup
from kernels_npu.sim.device.run_script import run_script

ROOT = Path(__file__).parents[4]


def _run(code: str, *argv: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", ["2.7.1", "2.12.0+cpu", "1.13.1"])
def test_an_old_torch_is_refused(version, monkeypatch):
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(EnvironmentProblem, match=r"AI-DEV-001.*torch >= 2\.13") as error:
        simulated.enable()
    assert version in str(error.value)


@pytest.mark.parametrize("version", ["2.13.0", "2.14.0a0+git123", "3.0.1"])
def test_a_new_torch_is_accepted(version):
    setup._check_torch(version)


def test_the_real_torch_npu_is_refused():
    out = _run(
        """
        import sys, types
        sys.modules["torch_npu"] = types.ModuleType("torch_npu")
        from kernels_npu.errors import EnvironmentProblem
        from kernels_npu.sim import device
        try:
            device.enable()
        except EnvironmentProblem as error:
            print(error)
        """
    )
    assert "AI-DEV-002" in out and "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in out


def test_another_back_end_is_refused():
    out = _run(
        """
        import torch
        torch.utils.rename_privateuse1_backend("other")
        from kernels_npu.errors import EnvironmentProblem
        from kernels_npu.sim import device
        try:
            device.enable()
        except EnvironmentProblem as error:
            print(error)
        """
    )
    assert "AI-DEV-003" in out and "'other'" in out


def test_enable_twice_and_more_devices():
    simulated.enable()
    simulated.enable(device_count=2)
    assert torch.npu.device_count() == 2 and simulated.is_enabled()


def test_an_unmodified_script_runs(tmp_path):
    script = tmp_path / "user_script.py"
    script.write_text(
        textwrap.dedent(
            """
            import argparse
            import torch
            import torch_npu
            import tilelang
            import tilelang.language as T
            import helper

            parser = argparse.ArgumentParser()
            parser.add_argument("--n", type=int)
            n = parser.parse_args().n

            @tilelang.jit(out_idx=[1])
            def double(n):
                @T.prim_func
                def main(x: T.Tensor((1, n), "float32"), y: T.Tensor((1, n), "float32")):
                    with T.Kernel(1, is_npu=True) as (cid, vid):
                        ub = T.alloc_ub((1, n), "float32")
                        with T.Scope("V"):
                            if vid == 0:
                                T.copy(x[0:1, :], ub)
                                T.barrier_all()
                                T.tile.add(ub, ub, ub)
                                T.barrier_all()
                                T.copy(ub, y[0:1, :])
                return main

            if __name__ == "__main__":
                torch.set_default_device("npu")
                x = torch.randn(1, n)
                torch.npu.synchronize()
                torch.testing.assert_close(double(n)(x), x * helper.FACTOR)
                print("Kernel Output Match!")
            """
        )
    )
    (tmp_path / "helper.py").write_text("FACTOR = 2\n")
    out = _run(
        """
        import sys
        from kernels_npu.sim.device.run_script import run_script
        before = list(sys.argv)
        names = run_script(sys.argv[1], ["--n", "64"])
        assert sys.argv == before and names["n"] == 64
        """,
        str(script),
    )
    assert out == "Kernel Output Match!\n"


def test_a_missing_script_is_named(tmp_path):
    with pytest.raises(UsageError, match="AI-DEV-012"):
        run_script(tmp_path / "absent.py")


@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
def test_transformers_imported_after_enabling_runs_a_model():
    out = _run(
        """
        from kernels_npu.sim import device
        device.enable()
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(0)
        sizes = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, vocab_size=64)
        model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2))
        tokens = torch.tensor([[5, 6, 7]])
        expected = model.generate(tokens, max_new_tokens=4, do_sample=False)
        model.to("npu")
        assert torch.equal(
            model.generate(tokens.npu(), max_new_tokens=4, do_sample=False).cpu(), expected
        )
        model(tokens.npu(), labels=tokens.npu()).loss.backward()
        print(model.lm_head.weight.grad.device)
        """
    )
    assert out.endswith("npu:0\n")
