"""Launches one operator's kernel and nothing else of ours: what `profile op --op` profiles.

python -m ascend_infer.operator_launch --op rms_norm --case llama-3-8b-decode-32
"""

from __future__ import annotations

import argparse
import sys

import torch

from ascend_infer.cli.output import print_error
from ascend_infer.devices import open_device
from ascend_infer.verification.ops import inputs_of
from kernels_npu import ops, registry
from kernels_npu.errors import AscendInferError, UsageError
from kernels_npu.spec import OPERATORS, Workload, all_specs


def workload_of(operator: str, case: str | None) -> Workload:
    """The operator's workload of that name, the first when none is named.

    Raises:
        UsageError: AI-CLI-001 when the operator has no such workload.
    """
    workloads = {workload.name: workload for workload in all_specs()[operator].workloads}
    if case is None:
        return next(iter(workloads.values()))
    if case not in workloads:
        raise UsageError(
            "AI-CLI-001",
            f"--case {case} of {operator}",
            rule=f"its workloads are {', '.join(workloads)}",
            fix="correct --case, or leave it out for the first",
        )
    return workloads[case]


def launch(operator: str, workload: Workload, dtype: str, launches: int, device_name: str) -> None:
    """Call the operator `launches` times on one set of inputs, with no implementation but its own.

    Raises:
        AscendInferError: the device is not there, or has no kernel for the operator.
    """
    device = open_device(device_name)
    inputs = inputs_of(all_specs()[operator], workload, dtype, device.torch_device, seed=0)
    with torch.no_grad(), registry.strict():
        for _ in range(launches):
            getattr(ops, operator)(**inputs)
    torch.get_device_module(device.torch_device).synchronize()


def main() -> int:
    """Exit status: 0 launched, 2 not."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--op", required=True, choices=OPERATORS)
    parser.add_argument("--case", help="one of its workloads (default: the first)")
    parser.add_argument("--dtype", default="float16", choices=("float16", "bfloat16"))
    parser.add_argument("--launches", type=int, default=1)
    parser.add_argument("--device", default="npu")
    options = parser.parse_args()
    try:
        workload = workload_of(options.op, options.case)
        launch(options.op, workload, options.dtype, options.launches, options.device)
    except AscendInferError as error:
        print_error(error, as_json=False)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
