"""The stream contract of TVM-FFI kernels on a CUDA device: probe, proof, threads, capture.

    python scripts/gpu/stream_proof.py [--device cuda:0]

Needs torch, apache-tvm-ffi and this repository. Prints one JSON object; exit status 0 when
everything holds, 1 when not, 2 without a device.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from graphs.device_api import device_api
from graphs.errors import GraphError
from kernels_npu import stream
from kernels_npu.stream.checks import environment_stream


def captured(device: torch.device, read: Callable[[torch.Tensor], int]) -> bool:
    """Whether a TVM-FFI function that is called inside a capture is given the capturing stream."""
    tensor, graph, side = torch.ones(3, device=device), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=side):
        tensor.mul_(2)  # an empty graph is a warning
        return stream.call(read, tensor) == side.cuda_stream


def in_a_thread(device: torch.device, read: Callable[[torch.Tensor], int]) -> bool:
    """Whether a new thread, which has a current stream of its own, follows it."""
    seen: list[bool] = []

    def launch() -> None:
        torch.cuda.set_device(device)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            seen.append(stream.call(read, torch.ones(3, device=device)) == side.cuda_stream)

    thread = threading.Thread(target=launch)
    thread.start()
    thread.join()
    return seen == [True]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    try:
        device = device_api(parser.parse_args().device).device
    except GraphError as error:
        print(error, file=sys.stderr)
        return 2
    torch.cuda.set_device(device)
    report = stream.examine(device)
    result: dict[str, Any] = {"report": report.to_dict()}
    if report.passed:
        stream.ensure(device)  # of this thread, before the capture
        read = environment_stream(device)
        result["captured"] = captured(device, read)
        result["thread"] = in_a_thread(device, read)
        result["patched"] = stream.is_installed()
    result["passed"] = (
        report.passed and result["captured"] and result["thread"] and not result["patched"]
    )
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
