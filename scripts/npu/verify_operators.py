"""Our kernels beside torch_npu's own operators, on the same numbers.

    python scripts/npu/verify_operators.py [--device npu:0] [--op rms_norm] [--json]

Both are judged by the operator's tolerance: against each other, which decides, and each against
the reference on the CPU, which says whose result is off. With `--device sim` the simulated NPU's
stand-ins take the place of torch_npu's operators, where it has one: that tries this program, and
proves nothing about torch_npu.

Exit status: 0 nothing differs, 1 something does or nothing was compared, 2 no such device.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from ascend_infer.cli import output
from ascend_infer.cli.options import integer
from ascend_infer.devices import Device, open_device
from ascend_infer.verification.ops import OpsOptions, cases, excess, inputs_of, outputs_of
from kernels_npu import ops, registry
from kernels_npu.errors import AscendInferError, UnsupportedError, UsageError
from kernels_npu.spec import OpSpec, Tolerance, Workload

if TYPE_CHECKING:
    from counterparts import Counterpart, Inputs, Outputs

#: Share of the tolerance -> its column.
SHARES = {"ours_theirs": "apart", "ours_reference": "ours", "theirs_reference": "theirs"}


def compare(
    spec: OpSpec, workload: Workload, dtype: str, device: Device, counterpart: Counterpart
) -> dict[str, Any]:
    """One row of the result; shares of the tolerance, above 1 is off."""
    row: dict[str, Any] = {
        "operator": spec.name,
        "case": f"{workload.name} {dtype}",
        "counterpart": counterpart.operator,
        "evidence": str(device.evidence),
    }
    where = device.torch_device
    inputs = inputs_of(spec, workload, dtype, where, seed=0)
    try:
        theirs = counterpart_outputs(counterpart, inputs)
    except AscendInferError as error:
        return row | {"verdict": "not compared", "why": f"{error.code}: {error.what}"}
    except (RuntimeError, OSError) as error:  # what ACL and the loader raise
        return row | {"verdict": "failed", "why": f"{type(error).__name__}: {error}"}
    ours = outputs_of(getattr(ops, spec.name), inputs, spec)
    expected = outputs_of(spec.reference, inputs_of(spec, workload, dtype, "cpu", seed=0), spec)
    tolerance = spec.tolerance[dtype]
    shares = {
        "ours_theirs": worst(ours, theirs, tolerance),
        "ours_reference": worst(ours, expected, tolerance),
        "theirs_reference": worst(theirs, expected, tolerance),
    }
    return row | shares | judge(shares)


def device_of_torch_npu(name: str) -> Device:
    """The device, one that torch_npu or its stand-in serves.

    Raises:
        UsageError: AI-CLI-001 for another one.
    """
    device = open_device(name)
    if device.torch_device.type != "npu":
        raise UsageError(
            "AI-CLI-001",
            f"--device {name} has no operators of torch_npu to compare with",
            fix="choose --device npu or sim; `ascend-infer verify ops` compares with the reference",
        )
    return device


def counterpart_outputs(counterpart: Counterpart, inputs: Inputs) -> Outputs:
    """What torch_npu's operator gives, on the host.

    Raises:
        UnsupportedError: AI-OP-009 when this torch_npu lacks it or it cannot serve the call.
    """
    import torch_npu

    obstacle = counterpart.obstacle(inputs)
    if not obstacle and getattr(torch_npu, counterpart.operator, None) is None:
        obstacle = f"torch_npu {torch_npu.__version__} does not have it"
    if obstacle:
        raise UnsupportedError(
            "AI-OP-009",
            f"torch_npu.{counterpart.operator} is no counterpart here: {obstacle}",
            rule="a call is compared where torch_npu documents an operator for it",
            fix="`ascend-infer verify ops` compares with the reference",
        )
    return {name: tensor.cpu() for name, tensor in counterpart.call(inputs).items()}


def worst(actual: Outputs, expected: Outputs, tolerance: Tolerance) -> float:
    """The largest difference of any output, as a share of what is allowed."""
    return max(excess(actual[name], expected[name], tolerance)[0] for name in expected)


def judge(shares: dict[str, float]) -> dict[str, str]:
    """The verdict, and for a difference whose result is further from the reference."""
    if shares["ours_theirs"] <= 1.0:
        return {"verdict": "same", "why": ""}
    off = "ours" if shares["ours_reference"] > shares["theirs_reference"] else "torch_npu's"
    return {"verdict": "differs", "why": f"AI-OP-010: {off} is further from the reference"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="npu", help="npu, npu:1 or sim (default: npu)")
    parser.add_argument("--op", action="append", default=[], help="only this one; repeatable")
    parser.add_argument(
        "--max-bytes", type=integer(1), default=4 << 20, help="leave out larger cases"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    try:
        device = device_of_torch_npu(options.device)
        chosen, skipped = cases(OpsOptions(names=tuple(options.op), max_bytes=options.max_bytes))
    except AscendInferError as error:
        output.print_error(error, as_json=options.json)
        return 2
    from counterparts import COUNTERPARTS  # imports torch_npu, which the device provides

    with torch.no_grad(), registry.strict():
        rows = [compare(*case, device, COUNTERPARTS[case[0].name]) for case in chosen]
    verdicts = {row["verdict"] for row in rows}
    passed = "same" in verdicts and verdicts <= {"same", "not compared"}
    if options.json:
        output.print_json({"passed": passed, "rows": rows, "left_out": skipped})
    else:
        show(rows, f"{len(skipped)} cases above {options.max_bytes:,} bytes left out")
    return 0 if passed else 1


def show(rows: list[dict[str, Any]], note: str) -> None:
    """One line per operator, verdict and reason, with the worst shares of its cases."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        reason = row["why"].partition("\n")[0]
        key = (row["operator"], row["counterpart"], row["verdict"], reason)
        groups.setdefault(key, []).append(row)

    def percent(group: list[dict[str, Any]], key: str) -> str:
        return f"{max(row[key] for row in group):.0%}" if key in group[0] else ""

    output.print_table(
        "ours and torch_npu's, as shares of the tolerance",
        ("operator", "torch_npu's", "verdict", *SHARES.values(), "cases", "evidence", "why"),
        [
            (
                *key[:3],
                *(percent(group, share) for share in SHARES),
                ", ".join(row["case"] for row in group) if key[2] == "differs" else len(group),
                group[0]["evidence"],
                key[3],
            )
            for key, group in groups.items()
        ],
        note=note,
    )


if __name__ == "__main__":
    sys.exit(main())
