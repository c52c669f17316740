"""Files of other dialects are recognised by what they use; files of the adapter never are."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from kernels_npu.dialect import T, translations
from kernels_npu.dialect.guard import ForeignDialect, judge, require_adapter
from kernels_npu.dialect.recognition import constructs

ROOT = Path(__file__).resolve().parents[3]
MAINLINE_ASCEND = """\
import tilelang
import tilelang.ascend.language as L

@tilelang.jit(target="ascend", pass_configs={"tl.enable_auto_schedule": True})
def scale(n: int):
    x = L.dynamic("x")
    @L.prim_func
    def main(A: L.Tensor((x, n), "float32")):
        with L.Kernel(32) as core:
            a = L.alloc_shared((n,), "float32")
            L.copy(A[core, 0], a, l2_cache_ctrl="NOTALLOC_KEEP")
            with L.SimtVF(threads=128):
                for i in L.Parallel(n):
                    a[i] = a[i] * 2
            L.dual_copy(a, A[core, 0])
    return main
"""
GPU = """\
from tilelang import language as tl
import tilelang as til

@til.jit(out_idx=[-1], target="cuda -arch=sm_90")
def matmul(M, N, K):
    @tl.prim_func
    def main(A: tl.Tensor((M, K), "float16"), C: tl.Tensor((M, N), "float16")):
        with tl.Kernel(N // 128, M // 128, threads=128) as (bx, by):
            tl.use_swizzle(panel_size=10)
            acc = tl.alloc_fragment((128, 128), "float32")
            tl.clear(acc)
            tl.gemm(A, A, acc, policy=tl.GemmWarpPolicy.FullRow)
    return main
"""
NPUIR = """\
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[-1], target="npuir")
def add(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float16"), C: T.Tensor((n,), "float16")):
        with T.Kernel(1, is_npu=True) as (cid, _):
            a = T.alloc_ub((n,), "float16")
            with T.Scope("Vector"):
                T.copy(A, a, size=[n])
                T.npuir_add(a, a, a)
                T.vexp(a, a)
    return main
"""
ADAPTER = """\
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ASCEND_AUTO_SYNC: True})
def add(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float16"), C: T.Tensor((n,), "float16")):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            a = T.alloc_ub((n,), "float16")
            with T.Scope("V"):
                T.copy(A, a)
                T.tile.add(a, a, a)
                T.copy(a, C)
    return main
"""
FILES = {"mainline-ascend": MAINLINE_ASCEND, "mainline": GPU, "npuir": NPUIR}


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (
            "mainline-ascend",
            [
                (2, "import tilelang.ascend.language"),
                (4, '"tl.enable_auto_schedule"'),
                (4, 'target="ascend"'),
                (6, "T.dynamic"),
                (9, "T.Kernel without is_npu=True"),
                (11, "T.copy(l2_cache_ctrl=)"),
                (12, "T.SimtVF"),
                (15, "T.dual_copy"),
            ],
        ),
        (
            "mainline",
            [
                (4, 'target="cuda -arch=sm_90"'),
                (8, "T.Kernel(threads=)"),
                (9, "T.use_swizzle(panel_size=)"),
                (11, "T.clear"),
                (12, "T.GemmWarpPolicy"),
                (12, "T.gemm"),
                (12, "T.gemm(policy=)"),
            ],
        ),
        (
            "npuir",
            [
                (4, 'target="npuir"'),
                (10, 'T.Scope("Vector")'),
                (11, "T.copy(size=)"),
                (12, "T.npuir_add"),
                (13, "T.vexp"),
            ],
        ),
    ],
)
def test_foreign_files(dialect: str, expected: list[tuple[int, str]]):
    verdict = judge(FILES[dialect])
    assert verdict.dialect == dialect and verdict.refused
    assert [(c.line, c.text) for c in verdict.foreign] == expected
    assert all(c.adapter for c in verdict.foreign)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_file_of_the_adapter(encoding: str):
    verdict = judge(ADAPTER.encode(encoding))
    assert (verdict.dialect, verdict.foreign, verdict.refused) == ("adapter", (), False)


def test_a_file_of_the_adapter_with_a_starred_import():
    text = ADAPTER.replace("import tilelang.language as T", "from tilelang.language import *")
    assert text != ADAPTER
    verdict = judge(text.replace("T.", "") + "\nfill(1)\n")
    assert [c.text for c in verdict.foreign] == ["T.fill"] and not verdict.refused


def test_names_that_npuir_shares_with_mainline_do_not_make_it_mainline():
    text = NPUIR.replace("T.npuir_add(a, a, a)", "T.gemm(a, a, a)").replace("T.vexp", "T.fill")
    verdict = judge(text.replace('T.Scope("Vector")', "T.serial(1)"))
    assert verdict.dialect == "npuir" and verdict.refused


def test_a_slip_in_a_file_of_the_adapter_is_left_to_its_line():
    """One that only uses what npuir has as well, but nothing of npuir's own."""
    text = "import tilelang.language as T\nT.Kernel(4, is_npu=True)\nT.alloc_ub(1)\nT.gemm(1)\n"
    verdict = judge(text)
    assert [c.text for c in verdict.foreign] == ["T.gemm"] and not verdict.refused


@pytest.mark.parametrize("foreign", FILES.values(), ids=FILES)
def test_a_file_with_kernels_for_both_is_not_refused(foreign: str):
    """Its kernels are looked at when they are used."""
    verdict = judge(ADAPTER + foreign)
    assert verdict.foreign and not verdict.refused


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def broken(:",
        "x = '\\0'\0",
        "import torch\ntorch.gemm(1)\n{'tl.enable_auto_schedule': 1}",
        "from .language import gemm\nimport tilelang_devkit as T\nT.gemm()",
        "import tilelang.language as T\noptions = {}\nwith T.Kernel(4, **options) as (c, v): pass",
        'import tilelang.language as T\nT.Scope("C" if 1 else "V")',
        # Modules that the adapter has as well, and TVM's own script.
        "from tilelang.utils.language import retrieve_shape\nretrieve_shape(1)",
        "from tvm.script import tir as T\n@T.prim_func\ndef f(): T.thread_binding(1)",
        # With a starred import, what is bound elsewhere is not the language's.
        "from tilelang.language import *\nprint(1)\ndef clear(): ...\nclear()",
        "from tilelang.language import *\nfrom torch import *\nempty(3)",
        "import tilelang.language as T\nfill = T.tile.fill\nfill(1)",
        # Nested deeper than Python reads, or than a recursive search goes.
        f"import tilelang.language as T\nx = {'-' * 200_000}1",
        f"import tilelang.language as T\nx = T{'.a' * 1_500}",
    ],
)
def test_what_shows_nothing(text: str):
    assert judge(text).foreign == ()


_STARRED = ["T.Kernel(threads=)", "T.fill"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from tilelang.language import gemm as g\ng(1, 2)", ["T.gemm"]),
        ("import tilelang\ntilelang.language.alloc_tmem(1)", ["T.alloc_tmem"]),
        ("from tilelang.ascend import language as T", ["import tilelang.ascend.language"]),
        ("from kernels_npu.dialect import T as t\nt.alloc_l1((2,), 'int8')", ["T.alloc_l1"]),
        ("from kernels_npu import dialect\ndialect.T.fill(1)", ["T.fill"]),
        ("import kernels_npu.dialect as d\nX = d.T\nX.fill(1)", ["T.fill"]),
        ("from tilelang.language import *\nwith Kernel(4, threads=1): fill", _STARRED),
        ("import tilelang\nT = tilelang.language\nT.fill(1)", ["T.fill"]),
        ("import tilelang\nT, x = tilelang.language, 1\nT.fill(1)", ["T.fill"]),
        ("import tilelang\nif (T := tilelang.language): T.fill(1)", ["T.fill"]),
        ("import tilelang.language as T\nfill = T.fill\nfill(1)", ["T.fill", "T.fill"]),
        ("import importlib as i\nT = i.import_module('tilelang.language')\nT.ws(0)", ["T.ws"]),
        ("from common import *\n@T.prim_func\ndef f(): T.fill(1)", ["T.fill"]),
        (
            "import tilelang.language as T\nT.Kernel(4, is_npu=False)",
            ["T.Kernel without is_npu=True"],
        ),
        (
            "import tilelang\ntilelang.compile(1, execution_backend='nvrtc')",
            ['execution_backend="nvrtc"'],
        ),
        (
            "import tilelang as t\nx = {t.PassConfigKey.TL_ENABLE_AUTO_SCHEDULE: 1}",
            ["PassConfigKey.TL_ENABLE_AUTO_SCHEDULE"],
        ),
    ],
)
def test_ways_to_name_things(text: str, found: list[str]):
    assert [c.text for c in constructs(text)] == found


def test_a_module_of_the_project_hands_tilelang_on():
    handed_on = GPU.replace("from tilelang import language as tl", "from .common import tl")
    handed_on = handed_on.replace("import tilelang as til", "from .common import tilelang")
    verdict = judge(handed_on.replace("til.jit", "tilelang.jit"))
    assert verdict.refused and len(verdict.foreign) == len(judge(GPU).foreign)
    assert judge("from torchvision import transforms as T\nT.Kernel(4)\nT.gemm(1)").foreign == ()


def test_the_refusal_translates_each_construct(tmp_path: Path):
    script = tmp_path / "kernel.py"
    script.write_text(GPU)
    with pytest.raises(ForeignDialect) as caught:
        require_adapter(script)
    error = caught.value
    assert error.code == "AI-SRC-022" and str(error.where) == f"{script}:4"
    assert "mainline TileLang: 7 uses" in error.what
    assert "T.gemm (line 12): T.gemm_v0(" in (error.fix or "")
    listed = error.to_dict()["constructs"]
    assert {"line": 11, "text": "T.clear", "adapter": "T.tile.clear"} in listed
    script.write_text(ADAPTER)
    require_adapter(script)
    require_adapter(tmp_path / "absent.py")


def _imported(file: Path) -> str:
    """What importing a kernel file as a module ends with."""
    program = (
        "import sys\n"
        "from kernels_npu.dialect.guard import ForeignDialect\n"
        f"sys.path.insert(0, {str(file.parent)!r})\n"
        "try:\n    import kernel\nexcept ForeignDialect as error:\n    print(error)\n"
        "else:\n    print('imported')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT
    )
    return done.stdout or done.stderr


def test_a_kernel_file_is_looked_at_when_it_asks_for_its_dialect(tmp_path: Path):
    """Also on a host, where the adapter would take some of the names and fail late."""
    kernel = tmp_path / "kernel.py"
    body = GPU.split("\n", 2)[2].replace("til.", "tilelang.").replace("tl.", "T.")
    kernel.write_text(f"from kernels_npu.dialect import tilelang, T\n{body}")
    said = _imported(kernel)
    assert said.startswith(f"AI-SRC-022: {kernel} is written for mainline TileLang")
    body = ADAPTER.split("\n", 2)[2]
    kernel.write_text(f"from kernels_npu.dialect import tilelang, T\n{body}")
    assert _imported(kernel) == "imported\n"


def test_no_row_is_a_name_of_the_adapter():
    own = set(vars(T))
    assert not own & translations.NAMES.keys()
    assert translations.OWN_NAMES.keys() <= own
    operations = translations.KEYWORD_CALLS & own
    assert operations
    for name in operations:
        parameters = inspect.signature(getattr(T, name)).parameters
        assert not parameters.keys() & translations.KEYWORDS.keys(), name
