"""Modules named `tilelang`, `tilelang.language`, ...: what an unmodified script imports.

`tilelang` and `T` below are the module objects that kernel files of this toolkit use through
`kernels_npu.dialect`; `install_shims` also makes them importable by name.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from kernels_npu.errors import EnvironmentProblem
from kernels_npu.sim.dtypes import bits_of
from kernels_npu.sim.frontend import autotuner, carver, mainline, profiler, tensor_supply, tvm_names
from kernels_npu.sim.frontend.jit import JITFactory, JITKernel, compile, jit
from kernels_npu.sim.frontend.jit_options import refuse
from kernels_npu.sim.frontend.language import memory
from kernels_npu.sim.frontend.language.surface import DialectModule, build_language
from kernels_npu.sim.frontend.pass_config import PassConfigKey

__all__ = ["T", "install_shims", "tilelang"]

#: Marks the modules made here.
MARK = "__ascend_infer_shim__"
VERSION = "0.1.4+sim"


class DataType:
    """`tilelang.DataType("float16")`: a dtype with its width."""

    def __init__(self, name: str) -> None:
        self.name = str(name)
        self.bits = bits_of(memory.dtype_name(self.name))
        self.lanes = 1

    @property
    def itemsize(self) -> int:
        """Bytes of one element, at least one."""
        return (self.bits + 7) // 8

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"DataType({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self.name)


def next_power_of_2(x: int) -> int:
    """The least power of two that is not below `x`."""
    return 1 << (x - 1).bit_length()


def cdiv(a: int, b: int) -> int:
    """`a / b`, rounded up; for a symbolic `a` division truncates, so the sum comes first."""
    return (a + b - 1) // b


def determine_platform(platform: str = "auto") -> str:
    """`A2`, `A3` or `A5`: from the argument, else TL_PLATFORM, the device, or the simulated SoC."""
    if platform != "auto":
        return platform
    from_environment = os.environ.get("TL_PLATFORM")
    if from_environment:
        return from_environment
    npu = getattr(sys.modules.get("torch"), "npu", None)
    if npu is not None:
        return _platform_of_device(npu)
    from kernels_npu.sim.config import current_config
    from kernels_npu.sim.soc import get_soc

    return get_soc(current_config().soc).platform


def _platform_of_device(npu: Any) -> str:
    if npu.is_available():
        name = str(npu.get_device_properties(npu.current_device()).name).upper()
        for part, platform in (("910_93", "A3"), ("910C", "A3"), ("910_95", "A5"), ("950", "A5")):
            if part in name:
                return platform
        if "910" in name:
            return "A2"
    return "A3"


def clear_cache() -> None:
    """Nothing to clear: kernels are cached in the process, by their factory."""


def disable_cache() -> None:
    """Nothing to disable: there is no cache on disk."""


def enable_cache() -> None:
    """Nothing to enable: there is no cache on disk."""


def set_log_level(level: Any) -> None:
    """Accepted; the simulator logs through `logging` under its own names."""
    del level


def lower(*args: Any, **kwargs: Any) -> Any:
    """Not available: no device code is generated."""
    del args, kwargs
    return refuse("tilelang.engine.lower", "no device code is generated")


def _module(name: str, doc: str, **members: Any) -> ModuleType:
    module = ModuleType(name, doc)
    for key, value in members.items():
        setattr(module, key, value)
    return module


T: ModuleType = build_language()


def _build() -> tuple[ModuleType, dict[str, ModuleType]]:
    """The package `tilelang` and all modules by name."""
    layouts = {
        "make_zn_layout": memory.make_zn_layout,
        "make_nz_layout": memory.make_nz_layout,
        "make_col_major_layout": memory.make_col_major_layout,
    }
    target = _module(
        "tilelang.utils.target", "The platform.", determine_platform=determine_platform
    )
    arch = _module("tilelang.carver.arch", "Chips.", Ascend=carver.Ascend)
    modules: dict[str, ModuleType] = {
        "tilelang.language": T,
        "tilelang.language.ascend_tile": T.tile,
        "tilelang.language.reduce_ascend": T.reduce_ascend,
        "tilelang.intrinsics": _module("tilelang.intrinsics", "Layouts.", **layouts),
        "tilelang.math": _module(
            "tilelang.math", "Integer helpers.", next_power_of_2=next_power_of_2, cdiv=cdiv
        ),
        "tilelang.utils": _module("tilelang.utils", "Utilities.", target=target),
        "tilelang.utils.target": target,
        "tilelang.cache": _module("tilelang.cache", "No disk cache.", clear_cache=clear_cache),
        "tilelang.profiler": _module(
            "tilelang.profiler",
            "Checks, and benchmarks without time.",
            do_bench=profiler.do_bench,
            Profiler=profiler.Profiler,
            TensorSupplyType=tensor_supply.TensorSupplyType,
        ),
        "tilelang.engine": _module("tilelang.engine", "No device code here.", lower=lower),
        "tilelang.autotuner": _module(
            "tilelang.autotuner",
            "Tuning by modelled cycles.",
            autotune=autotuner.autotune,
            set_autotune_inputs=autotuner.set_autotune_inputs,
        ),
        "tilelang.carver": _module(
            "tilelang.carver",
            "Proposals of tile sizes.",
            MatmulTemplate=carver.MatmulTemplate,
            Hint=carver.Hint,
        ),
        "tilelang.carver.arch": arch,
        "tilelang.carver.arch.ascend": arch,
        "tilelang.transform": _module(
            "tilelang.transform", "Pass options.", PassConfigKey=PassConfigKey
        ),
    }
    ascend = mainline.MainlineModule("tilelang.ascend")
    vars(ascend)["language"] = mainline.MainlineModule("tilelang.ascend.language")
    tvm = tvm_names.build()
    modules |= {"tvm": tvm, "tvm.tir": tvm.tir, "tilelang.tvm": tvm, "tilelang.tvm.tir": tvm.tir}
    modules |= {"tilelang.ascend": ascend, "tilelang.ascend.language": vars(ascend)["language"]}
    package = DialectModule("tilelang", "tilelang-ascend's Python interface, on the simulated NPU.")
    for full_name, module in modules.items():
        parent, _, leaf = full_name.rpartition(".")
        if parent == "tilelang":
            setattr(package, leaf, module)
    members: dict[str, Any] = {
        "jit": jit,
        "compile": compile,
        "JITKernel": JITKernel,
        "JITFactory": JITFactory,
        "PassConfigKey": PassConfigKey,
        "DataType": DataType,
        "autotune": autotuner.autotune,
        "set_autotune_inputs": autotuner.set_autotune_inputs,
        "TensorSupplyType": tensor_supply.TensorSupplyType,
        "lower": lower,
        "cdiv": cdiv,
        "next_power_of_2": next_power_of_2,
        "disable_cache": disable_cache,
        "enable_cache": enable_cache,
        "set_log_level": set_log_level,
        "__version__": VERSION,
    }
    for key, value in members.items():
        setattr(package, key, value)
    return package, {"tilelang": package, **modules}


tilelang, MODULES = _build()
for _shim in MODULES.values():
    setattr(_shim, MARK, True)


#: Modules with submodules, which are registered below.
PACKAGES = (
    *("tilelang", "tilelang.language", "tilelang.utils", "tilelang.ascend"),
    *("tilelang.carver", "tilelang.carver.arch", "tilelang.autotuner"),
)


def install_shims() -> ModuleType:
    """Make `import tilelang` give the simulator's front end; idempotent.

    Raises:
        EnvironmentProblem: AI-ENV-020 when a real `tilelang` is already imported in this process.
    """
    present = sys.modules.get("tilelang")
    if present is not None and not getattr(present, MARK, False):
        raise EnvironmentProblem(
            "AI-ENV-020",
            f"a real tilelang is already imported from {getattr(present, '__file__', 'somewhere')}",
            rule="the simulated NPU brings its own tilelang; both cannot be in one process",
            fix="start a fresh process and import the simulated device before tilelang",
        )
    for name in PACKAGES:
        MODULES[name].__path__ = []
    for name, module in MODULES.items():
        # Libraries ask `importlib.util.find_spec` if a package is there; without a spec it raises.
        if module.__spec__ is None:
            module.__spec__ = ModuleSpec(name, None, origin="simulated")
    sys.modules.update(MODULES)
    return tilelang
