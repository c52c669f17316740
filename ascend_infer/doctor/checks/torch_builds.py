"""torch, torch_npu and the simulated NPU, as the child processes found them."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_infer.doctor.report import ABSENT, AUTOLOAD, BROKEN, OK, WARNING, Finding, Situation
from graphs.planning.streams import RESERVED
from kernels_npu.errors import AscendInferError
from kernels_npu.sim.soc import get_soc

_MISSING = "No module named 'torch'"


def torch(situation: Situation) -> Iterator[Finding]:
    """torch can be imported, and is a build that torch_npu bears."""
    name, values = "torch", situation.values("torch")
    if failure := situation.failure("torch"):
        missing = _MISSING in failure
        yield Finding(
            name=name,
            verdict=BROKEN,
            evidence="not installed" if missing else failure,
            advice=_install(situation)
            if missing
            else "repair what the message names; if it is torch's own, install torch again",
        )
        return
    build = f"CUDA {values['cuda']}" if values["cuda"] else "no CUDA"
    clash = bool(values["cuda"]) and situation.torch_npu_installed
    yield Finding(
        name=name,
        verdict=BROKEN if clash else OK,
        evidence=f"{values['version']}, {build}, {values['threads']} threads"
        + ("; torch_npu refuses a torch with another accelerator (ERR00007)" if clash else ""),
        advice="install the CPU build: pip install torch=="
        f"{values['version'].partition('+')[0]}+cpu --index-url ADDRESS "
        "(of PyTorch's CPU builds)"
        if clash
        else "",
    )


def _install(situation: Situation) -> str:
    if situation.torch_npu_installed:
        return "install the torch that belongs to torch_npu"
    return "pip install 'ascend-infer[sim]' (CPU wheels: --index-url of pytorch.org/whl/cpu)"


def torch_npu(situation: Situation) -> Iterator[Finding]:
    """torch_npu can be imported and sees NPUs."""
    name, values = "torch_npu", situation.values("torch_npu")
    failure = situation.failure("torch_npu")
    if not situation.torch_npu_installed and (not failure or _MISSING in failure):
        yield Finding(name=name, verdict=ABSENT, evidence="not installed; only hosts need it")
    elif not values.get("installed"):
        failure = failure or "pip knows torch_npu, but its package is gone"
        breaks = situation.torch_npu_breaks_torch
        consequence = (
            "`import torch` fails with it"
            if breaks
            else f"{AUTOLOAD}=0 keeps it out of `import torch`"
        )
        remedy = "pip uninstall torch_npu" + (f", or export {AUTOLOAD}=0" if breaks else "")
        yield Finding(
            name=name,
            verdict=BROKEN if breaks or situation.npu_host else WARNING,
            evidence=f"{failure}; {consequence}",
            advice="source CANN's set_env.sh; install the torch_npu that belongs to this torch"
            if situation.npu_host
            else f"{remedy}: no NPU is here",
        )
    elif not values["available"]:
        yield Finding(
            name=name,
            verdict=situation.grave(),
            evidence=f"{values['version']} sees no NPU",
            advice="check `npu-smi info` and that CANN's set_env.sh was sourced",
        )
    else:
        names = sorted(set(values["names"]))
        others = [chip for chip in names if not _has_adapter_kernels(chip)]
        yield Finding(
            name=name,
            verdict=WARNING if others else OK,
            evidence=f"{values['version']}, {values['count']} NPU(s): {', '.join(names)}",
            advice=f"use an A2 or A3: the kernels here are not made for {', '.join(others)}"
            if others
            else "",
        )


def _has_adapter_kernels(chip: str) -> bool:
    try:
        return get_soc(chip).platform in ("A2", "A3")
    except AscendInferError:
        return False


def stream(situation: Situation) -> Iterator[Finding]:
    """A kernel would be launched on a stream that torch's operators are ordered with."""
    name, values = "stream of a launch", situation.values("stream")
    if not situation.values("torch_npu").get("available"):
        return
    why = situation.failure("stream") or values.get("why", "")
    yield Finding(
        name=name,
        verdict=BROKEN if why else OK,
        evidence=why
        or f"the current stream of npu:0 is {values['handle']:#x}, read by {values['accessor']}",
        advice=(values.get("fix") or "see docs/streams.md") if why else "",
    )


def free_streams(situation: Situation) -> Iterator[Finding]:
    """Each captured graph holds a stream of the device."""
    name, values = "free streams", situation.values("streams")
    if not situation.values("torch_npu").get("available"):
        return
    why = situation.failure("streams") or (f"error {values['code']}" if values["code"] else "")
    if why:
        yield Finding(
            name=name,
            verdict=WARNING,
            evidence=f"cannot be counted: {why}",
            advice="capture few sizes first, and watch for 207008",
        )
        return
    few = values["free"] < RESERVED
    yield Finding(
        name=name,
        verdict=WARNING if few else OK,
        evidence=f"{values['free']} on npu:0, counted over all processes",
        advice="end other processes on this NPU, or capture fewer sizes" if few else "",
    )


def tvm_ffi(situation: Situation) -> Iterator[Finding]:
    """Kernels that are called through tvm-ffi follow the current stream, too.

    Never broken: kernels of the adapter dialect do not go that way.
    """
    name, values = "streams of TVM-FFI kernels", situation.values("tvm_ffi")
    failure = situation.failure("tvm_ffi")
    if not situation.values("torch_npu").get("available"):
        return
    if not failure and not values["installed"]:
        yield Finding(name=name, verdict=ABSENT, evidence="apache-tvm-ffi is not installed")
        return
    if not failure and values["follows"]:
        how = "after a patch of the exchange table" if values["patched"] else "without a patch"
        yield Finding(
            name=name,
            verdict=OK,
            evidence=f"they follow the current stream {how}",
            advice="call kernels_npu.stream.ensure before them" if values["patched"] else "",
        )
        return
    first = {} if failure else values["problems"][0]
    yield Finding(
        name=name,
        verdict=WARNING,
        evidence=failure or f"{first['code']}: {first['what']}",
        advice=first.get("fix") or "see docs/streams.md",
    )


def simulator(situation: Situation) -> Iterator[Finding]:
    """A tensor made the round trip."""
    name, values = "simulated NPU", situation.values("simulator")
    if failure := situation.failure("simulator"):
        yield Finding(
            name=name,
            verdict=BROKEN,
            evidence=failure,
            advice="repair torch first" if situation.failure("torch") else "report this defect",
        )
    elif not values["usable"]:
        yield Finding(
            name=name,
            verdict=WARNING,
            evidence=values["why"].splitlines()[0],
            advice=values.get("fix") or "",
        )
    else:
        yield Finding(
            name=name, verdict=OK, evidence="a tensor made the round trip host, device, host"
        )
