# ruff: noqa: RUF059 - kernels name both indices
"""`tilelang.jit`, `tilelang.compile` and the modules that scripts import.

Annotations are evaluated here, as in every kernel file: names that only a string annotation uses
are not captured by the kernel's closure.
"""

import subprocess
import sys
import threading

import pytest

from kernels_npu.errors import KernelSourceError, UnsupportedError
from kernels_npu.sim.frontend import JITKernel, T, tilelang

BUILT: list[tuple[int, str]] = []


@tilelang.jit(out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_ASCEND_AUTO_SYNC: True})
def negate(rows: int, dtype: str = "float16"):
    BUILT.append((rows, dtype))

    @T.prim_func
    def main(A: T.Tensor((rows, 64), dtype), scale: T.float32, B: T.Tensor((rows, 64), dtype)):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            a = T.alloc_ub((16, 64), dtype)
            T.copy(A[0, 0], a)
            T.tile.mul(a, a, -1.0)
            T.copy(a, B[0, 0])

    return main


def test_a_factory_builds_once_per_arguments():
    BUILT.clear()
    kernels = {negate(16) for _ in range(200)}
    assert len(kernels) == 1 and BUILT == [(16, "float16")]
    assert negate(16, "float16") is not None and negate(32) not in kernels
    assert negate(rows=32) is negate(rows=32)


def test_equal_numbers_of_different_types_are_different_arguments():
    @tilelang.jit
    def factory(flag):
        @T.prim_func
        def main(A: T.Tensor((16,), "float16")):
            with T.Kernel(1, is_npu=True) as (cid, vid):
                a = T.alloc_ub((16,), "float32")
                T.tile.fill(a, flag)

        return main

    values = [factory(v).prim_func.body[0].operands[1].value for v in (1, True, 1.0)]
    assert [type(v) for v in values] == [int, bool, float]


def test_kernel_attributes():
    kernel = negate(16)
    assert kernel.out_idx == (2,) and kernel.workspace_idx == ()
    assert kernel.target == "ascendc"
    assert kernel.pass_configs == {"tl.ascend_auto_sync": True}
    assert [p.name for p in kernel.params] == ["A", "scale", "B"]
    assert (
        "@T.prim_func" in kernel.get_kernel_source() and "T.tile.mul" in kernel.get_kernel_source()
    )
    assert "mul(a, a, -1.0)" in kernel.script()
    assert negate.__name__ == "negate" and negate.__jit_impl__.target == "auto"


def test_without_parentheses_and_compile():
    @tilelang.jit
    def factory():
        @T.prim_func
        def main(A: T.Tensor((16,), "float16"), W: T.Tensor((16,), "float16")):
            with T.Kernel(1, is_npu=True) as (cid, vid):
                pass

        return main

    assert factory().out_idx == ()
    kernel = tilelang.compile(factory.func(), out_idx=-2, workspace_idx=[1], target="pto")
    assert isinstance(kernel, JITKernel)
    assert (kernel.out_idx, kernel.workspace_idx, kernel.target) == ((0,), (1,), "pto")


def test_factories_are_safe_to_call_from_threads():
    BUILT.clear()
    found = []
    threads = [threading.Thread(target=lambda: found.append(negate(48))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and BUILT == [(48, "float16")]


def _kernel():
    return negate.func(16)


WRONG = {
    "position": lambda: tilelang.compile(_kernel(), out_idx=3),
    "scalar output": lambda: tilelang.compile(_kernel(), out_idx=1),
    "target": lambda: tilelang.compile(_kernel(), target="cuda"),
    "mainline target": lambda: tilelang.jit(target="ascend"),
    "backend": lambda: tilelang.compile(_kernel(), execution_backend="tvm_ffi"),
    "pass option": lambda: tilelang.compile(_kernel(), pass_configs={"tl.ascend_auto_snc": True}),
    "mainline pass option": lambda: tilelang.jit(pass_configs={"tl.enable_auto_schedule": True}),
    "mainline option": lambda: tilelang.jit(compile_flags=["-O3"]),
    "unknown option": lambda: tilelang.compile(_kernel(), opt=3),
    "not a kernel": lambda: tilelang.compile(lambda x: x),
    "jit of a kernel": lambda: tilelang.jit(_kernel()),
    "unhashable argument": lambda: tilelang.jit(lambda x: x)({1, 2}),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options(name):
    with pytest.raises(KernelSourceError) as caught:
        WRONG[name]()
    assert caught.value.code == "AI-SRC-036" and caught.value.fix


def test_parse_errors_surface_at_the_factory_call():
    @tilelang.jit
    def factory(size):
        @T.prim_func
        def main(A: T.Tensor((16,), "float16")):
            with T.Kernel(1, is_npu=True) as (cid, vid):
                a = T.alloc_ub((size,), "float16")  # noqa: F841

        return main

    with pytest.raises(KernelSourceError) as caught:
        factory(0)
    assert caught.value.code == "AI-SRC-028" and str(caught.value.where).startswith(__file__)
    assert factory(16).params


def test_calling_a_prim_func():
    with pytest.raises(KernelSourceError, match="AI-SRC-031"):
        _kernel()(1)


def test_there_is_no_device_code():
    kernel = negate(16)
    for call in (
        lambda: tilelang.engine.lower(_kernel()),
        lambda: kernel.export_library("k.so"),
    ):
        with pytest.raises(UnsupportedError) as caught:
            call()
        assert caught.value.code == "AI-SRC-037"


def test_helpers_of_the_package(monkeypatch):
    assert tilelang.DataType("float16").bits == 16 and str(tilelang.DataType("half")) == "half"
    assert tilelang.math.next_power_of_2(33) == 64 and tilelang.cdiv(7, 2) == 4
    monkeypatch.setenv("TL_PLATFORM", "A5")
    assert tilelang.utils.target.determine_platform() == "A5"
    assert tilelang.utils.target.determine_platform("A3") == "A3"
    monkeypatch.delenv("TL_PLATFORM")
    assert tilelang.utils.target.determine_platform() == "A2"
    assert tilelang.disable_cache() is None and tilelang.cache.clear_cache() is None
    assert issubclass(tilelang.PassConfigKey, str)


def _python(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_scripts_import_the_shims_by_name():
    out = _python(
        "from kernels_npu.sim import frontend\n"
        "frontend.install_shims(); frontend.install_shims()\n"
        "import tilelang, tilelang.language as T, tilelang as tl\n"
        "from tilelang import DataType, JITKernel, language\n"
        "from tilelang.intrinsics import make_zn_layout, make_nz_layout\n"
        "from tilelang.profiler import do_bench\n"
        "from tilelang.utils.target import determine_platform\n"
        "import tilelang.language.reduce_ascend as reduce_ascend\n"
        "assert T is language is frontend.T and T.tile.add and reduce_ascend.reduce_sum\n"
        "from tilelang.carver.arch.ascend import Ascend\n"
        "import tvm; assert tilelang.tvm is tvm and issubclass(tvm.TVMError, Exception)\n"
        "try:\n    from tilelang import rasp\n"
        "except ImportError: print('no rasp')"
    )
    assert out == "no rasp\n"


def test_a_script_of_mainlines_backend_is_told_so():
    out = _python(
        "from kernels_npu.sim import frontend\n"
        "frontend.install_shims()\n"
        "import tilelang.ascend.language as T\n"
        "from kernels_npu.errors import KernelSourceError\n"
        "try:\n    T.Kernel(4)\n"
        "except KernelSourceError as error: print(error.code, error.fix)"
    )
    assert out.startswith("AI-SRC-022 write `import tilelang.language as T`")


def test_a_real_tilelang_in_the_process_is_refused():
    out = _python(
        "import sys, types\n"
        "sys.modules['tilelang'] = types.ModuleType('tilelang')\n"
        "from kernels_npu.sim import frontend\n"
        "from kernels_npu.errors import EnvironmentProblem\n"
        "try:\n    frontend.install_shims()\n"
        "except EnvironmentProblem as error: print(error.code)"
    )
    assert out == "AI-ENV-020\n"


def test_the_front_end_does_not_import_torch():
    assert (
        _python("import sys, kernels_npu.sim.frontend; print('torch' in sys.modules)") == "False\n"
    )
