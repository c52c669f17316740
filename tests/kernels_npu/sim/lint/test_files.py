"""Which kernels of a file are found, and that none is launched."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kernels_npu.errors import UsageError
from kernels_npu.sim.lint import FileReport, python_files

Lint = Callable[..., FileReport]

FACTORY = """
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[1])
def scale(rows, cols=96, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((rows, cols), dtype), B: T.Tensor((rows, cols), dtype)):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            a = T.alloc_ub((rows, cols), dtype)
            with T.Scope("V"):
                T.copy(A, a)
                T.barrier_all()
                T.tile.mul(a, a, 2.0)
                T.barrier_all()
                T.copy(a, B)
    return main
"""


def made_by(report: FileReport) -> list[str]:
    return [kernel.made_by for kernel in report.kernels]


def test_factories_called_at_module_level_are_checked_without_a_launch(lint: Lint) -> None:
    report = lint(
        FACTORY
        + """
import torch
x = torch.randn(40, 96).npu()
kernel = scale(*x.shape[:1])
y = kernel(x)
for row in range(y.shape[0]):
    assert y[row, 3].item() == 2 * x[row, 3].item()
torch.testing.assert_close(y, 3 * x)
scale(7, dtype="float16")(x)
"""
    )
    assert made_by(report) == ["scale(40)", "scale(7, dtype='float16')"]
    assert report.all_findings == ()
    kernel = report.kernels[0]
    assert kernel.parameters == ("A: float32[40, 96]", "B: float32[40, 96]")
    use = kernel.memory["UB"]
    assert (use.configured, use.planned, use.unplanned) == (40 * 96 * 4,) * 3
    assert (use.capacity, kernel.loc and kernel.loc.line) == (196352, 8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def run(n=24):\n    scale(n, 32)", ["scale(24, 32)"]),
        ("if __name__ == '__main__':\n    rows = 3 * 8\n    scale(rows)", ["scale(24)"]),
        (
            "def run(n):\n    scale(n)\ndef go():\n    run(24)\n    run(9)",
            ["scale(24)", "scale(9)"],
        ),
        (
            "import pytest\n@pytest.mark.parametrize('n, m', [(2, 32), (5, 64)])\n"
            "def test_it(n, m):\n    k = scale(n, cols=m)",
            ["scale(2, cols=32)", "scale(5, cols=64)"],
        ),
        (
            "import argparse\ndef main():\n    p = argparse.ArgumentParser()\n"
            "    p.add_argument('--n', type=int, default=48)\n"
            "    options = p.parse_args()\n    scale(options.n)",
            ["scale(48)"],
        ),
        ("for n in (3, 4):\n    pass\nfor m in [5]:\n    scale(m)", ["scale(5)"]),
    ],
)
def test_arguments_of_uncalled_factories_come_from_the_text(
    lint: Lint, text: str, expected: list[str]
) -> None:
    report = lint(FACTORY + text)
    assert made_by(report) == expected
    assert report.all_findings == ()


def test_a_factory_whose_arguments_nobody_knows_is_named(lint: Lint) -> None:
    text = FACTORY + "def run(x):\n    scale(x.shape[0])\n"
    report = lint(text)
    (finding,) = report.findings
    assert (finding.code, finding.severity) == ("AI-LINT-002", "warning")
    assert "--call 'scale(...)'" in finding.fix
    assert made_by(lint(text, calls=["scale(12, 32)"])) == ["scale(12, 32)"]
    with pytest.raises(UsageError, match="AI-LINT-003"):
        lint(text, calls=["scael(12)"])


def test_the_main_part_runs_only_when_asked(lint: Lint) -> None:
    text = FACTORY + (
        "import torch\nran = []\n"
        "if __name__ == '__main__':\n    x = torch.zeros(3, 32)\n    scale(*x.shape)(x)\n"
        "    raise ValueError('no data')\n"
    )
    assert [f.code for f in lint(text).findings] == ["AI-LINT-002"]
    report = lint(text, main=True)
    assert made_by(report) == ["scale(3, 32)"]
    assert report.all_findings == ()


def test_prim_funcs_without_a_factory_are_kernels_too(lint: Lint) -> None:
    body = FACTORY.split("@tilelang.jit")[0]
    text = (
        body
        + """
@T.prim_func
def nothing(A: T.Tensor((8, 32), "float32")):
    with T.Kernel(1, is_npu=True) as (cid, vid):
        a = T.alloc_ub((8, 32), "float32")
        T.copy(A, a)
"""
    )
    report = lint(text)
    assert [k.kernel for k in report.kernels] == ["nothing"]
    assert [f.code for f in report.all_findings] == ["AI-INIT-002"]


def test_what_ends_the_module_level_is_a_finding(lint: Lint) -> None:
    report = lint(FACTORY + "scale(8)\nraise RuntimeError('stop here')\nscale(9)\n")
    assert made_by(report) == ["scale(8)"]
    (finding,) = report.findings
    assert finding.code == "AI-LINT-001"
    assert "stop here" in finding.message
    assert finding.loc is not None
    assert finding.loc.line == 19
    (finding,) = lint("import tilelang\nx = (\n").findings
    assert (finding.code, finding.severity) == ("AI-LINT-001", "error")


def test_an_error_of_one_kernel_does_not_hide_the_others(lint: Lint) -> None:
    report = lint(FACTORY + "scale(0.5)\nscale(8)\n")
    assert [bool(k.findings) for k in report.kernels] == [True, False]
    (finding,) = report.kernels[0].findings
    assert finding.code.startswith("AI-SRC-")
    assert finding.loc is not None


def test_a_missing_path_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="AI-CLI-004"):
        python_files(["/nowhere/at/all.py"])
