"""Methods of the workers under test, for `--worker-extension-cls`."""

from __future__ import annotations

from typing import Any

from ascend_infer.vllm_plugin.worker_extension import StatusExtension


class TestExtension(StatusExtension):
    """The plugin's state, the device's counts, and a fault on demand."""

    __test__ = False

    def device_counts(self) -> dict[str, Any]:
        """What the simulated device of this worker executed since it started."""
        from kernels_npu.sim.device import counters

        return counters.snapshot().to_dict()

    def query_shapes(self, name: str) -> list[list[int | None]]:
        """Shape of the first parameter of each kernel `name` that was launched; None: dynamic."""
        from kernels_npu.sim.device.launch import _plans

        firsts = [k.prim_func.params[0] for k, plan in _plans.items() if plan.name == name]
        return [[n if isinstance(n, int) else None for n in first.shape] for first in firsts]

    def fail_launches(self, name: str) -> list[str]:
        """From now on each launch of the TileLang kernel `name` ends as a faulty one does."""
        from kernels_npu.sim.machine import CompiledKernel

        launch = CompiledKernel.launch

        def failing(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            if kernel.func.name == name:
                raise RuntimeError(f"vector core exception in {name}, error code is 507035")
            return launch(kernel, *args, **kwargs)

        CompiledKernel.launch = failing
        return [name]
