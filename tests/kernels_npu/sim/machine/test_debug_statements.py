"""`print(...)` and `breakpoint()` in kernels and macros, which the real parser runs only once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels_npu.sim.debugger.kernel_pdb import debugger
from kernels_npu.sim.frontend import T, tilelang

N = 32
hooked: list[int] = []


def hook() -> None:
    """What PYTHONBREAKPOINT names: records the line of the kernel that called."""
    frame = sys._getframe(2)
    hooked.append(frame.f_locals["cid"])


def printing() -> Any:
    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def shown(x: T.Tensor((2, N), "float32"), y: T.Tensor((2, N), "float32")):
            with T.Kernel(2, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, N], "float32")
                print("built once", a.shape)
                T.copy(x[cid, 0], a)
                T.barrier_all()
                print("a is", a, "of", cid, sep="|", end=".\n")
                print(a[0, 2:5], a[0, 1], cid + 10)
                for i in T.serial(2):
                    print("i", i)
                T.copy(a, y[cid, 0])

        return shown

    return factory()


def test_print_shows_run_time_values_where_a_core_is(
    launch: Callable[..., Any], rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    x = rng.standard_normal((2, N), dtype=np.float32)
    kernel = printing()
    assert capsys.readouterr().out == "built once (1, 32)\n"
    result = launch(kernel, x)
    np.testing.assert_array_equal(result.outputs[0], x)
    text = capsys.readouterr().out
    assert text.count("block 0 aiv0]") == text.count("block 1 aiv0]") == 4
    for block in range(2):
        assert f"block {block} aiv0] a is|a: float32[1, 32] in UB bytes [0x0, 0x80)" in text
        assert f"|of|{block}.\n" in text
        assert f"] {x[block, 2:5]} {float(x[block, 1])!r} {block + 10}\n" in text
        assert f"block {block} aiv0] i 1\n" in text
    assert np.array2string(x[:1], max_line_width=100) in text
    assert {(f.code, f.severity) for f in result.record.findings} == {("AI-DBG-003", "hint")}


def test_print_of_what_the_other_core_has(
    launch: Callable[..., Any], rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    @tilelang.jit(out_idx=[2])
    def factory() -> Any:
        @T.prim_func
        def two(
            x: T.Tensor((16, 16), "float16"),
            z: T.Tensor((16, 16), "float32"),
            y: T.Tensor((16, 16), "float32"),
        ):
            with T.Kernel(1, is_npu=True) as (cid, vid):
                a = T.alloc_L1([16, 16], "float16")
                c = T.alloc_L0C([16, 16], "float32")
                u = T.alloc_ub([8, 16], "float32")
                with T.Scope("C"):
                    T.copy(x, a)
                    T.barrier_all()
                    T.gemm_v0(a, a, c, init=True)
                    T.barrier_all()
                    print("cube", c[0, 0:2], cid)
                    T.copy(c, y)
                with T.Scope("V"):
                    T.copy(z[vid * 8, 0], u)
                    T.barrier_all()
                    print("vector", vid, u[7, 0:2], c)
                    T.copy(u, z[vid * 8, 0])

        return two

    x = rng.standard_normal((16, 16)).astype(np.float16)
    z = rng.standard_normal((16, 16)).astype(np.float32)
    result = launch(factory(), x, z)
    assert result.errors == []
    text = capsys.readouterr().out
    product = x.astype(np.float32) @ x.astype(np.float32)
    np.testing.assert_allclose(result.outputs[0], product, rtol=1e-3, atol=1e-3)
    assert f"aic] cube {result.outputs[0][0, :2]} 0" in text
    for vid in range(2):
        assert f"aiv{vid}] vector {vid} {z[vid * 8 + 7, :2]} <c is not on this core>" in text


def stopping(in_macro: bool) -> Any:
    @T.macro
    def stop() -> None:
        breakpoint()

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def halted(x: T.Tensor((2, N), "float32"), y: T.Tensor((2, N), "float32")):
            with T.Kernel(2, is_npu=True, threads=1) as cid:
                a = T.alloc_ub([1, N], "float32")
                T.copy(x[cid, 0], a)
                T.barrier_all()
                if in_macro:
                    stop()
                else:
                    breakpoint()
                T.copy(a, y[cid, 0])

        return halted

    return factory()


@pytest.mark.parametrize("in_macro", [False, True])
def test_breakpoint_stops_where_it_stands(
    launch: Callable[..., Any],
    rng: np.random.Generator,
    schedule: tuple[str, int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    in_macro: bool,
) -> None:
    x = rng.standard_normal((2, N), dtype=np.float32)
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    monkeypatch.setattr(debugger(), "commands_at_stop", ["p float(a[0, 3])", "next"])
    result = launch(stopping(in_macro), x, schedule=schedule)
    np.testing.assert_array_equal(result.outputs[0], x)
    text = capsys.readouterr().out
    assert text.count("-> breakpoint()") == 2
    assert text.count("-> T.copy(a, y[cid, 0])") == 2
    assert all(repr(float(value)) in text for value in x[:, 3])


def test_pythonbreakpoint_is_honoured(
    launch: Callable[..., Any], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.standard_normal((2, N), dtype=np.float32)
    kernel = stopping(in_macro=False)
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    np.testing.assert_array_equal(launch(kernel, x).outputs[0], x)
    hooked.clear()
    monkeypatch.setattr(sys, "breakpointhook", hook)
    monkeypatch.setenv("PYTHONBREAKPOINT", f"{__name__}.hook")
    np.testing.assert_array_equal(launch(kernel, x).outputs[0], x)
    assert hooked == [0, 1]


def test_a_module_with_its_own_print_keeps_it(capsys: pytest.CaptureFixture[str]) -> None:
    calls = []

    def print(*values: object) -> None:
        calls.append(len(values))

    @tilelang.jit(out_idx=[1])
    def factory() -> Any:
        @T.prim_func
        def own(x: T.Tensor((N,), "float32"), y: T.Tensor((N,), "float32")):
            with T.Kernel(1, is_npu=True, threads=1) as _cid:
                a = T.alloc_ub([N], "float32")
                T.copy(x, a)
                print(a, 1)
                T.copy(a, y)

        return own

    factory()
    assert calls == [2] and capsys.readouterr().out == ""
