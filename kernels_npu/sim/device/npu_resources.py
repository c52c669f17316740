"""The part of `torch.npu` that speaks about memory and random numbers of a device."""

from __future__ import annotations

import torch

from kernels_npu.sim.config import current_config
from kernels_npu.sim.device import rng
from kernels_npu.sim.device.state import current, device_state, process
from kernels_npu.sim.device.streams import DeviceLike, index_of
from kernels_npu.sim.soc import get_soc


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes of live npu storages."""
    return device_state(index_of(device)).allocated


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The most bytes that were alive at once since `reset_peak_memory_stats`."""
    return device_state(index_of(device)).peak


def memory_reserved(device: DeviceLike = None) -> int:
    """Live bytes, or the memory of graph pools when that is more."""
    state = device_state(index_of(device))
    return max(state.allocated, state.reserved)


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The most live bytes, or the memory of graph pools when that is more."""
    state = device_state(index_of(device))
    return max(state.peak, state.reserved)


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Start the peak from the bytes alive now."""
    state = device_state(index_of(device))
    state.peak = state.allocated


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """(free, total) bytes of the device."""
    total = get_soc(current_config().soc).memory_bytes
    return total - memory_reserved(device), total


def memory_stats(device: DeviceLike = None) -> dict[str, int]:
    """The figures above under the allocator's names, and how many storages were ever made."""
    return {
        "allocation.all.allocated": device_state(index_of(device)).allocations,
        "allocated_bytes.all.current": memory_allocated(device),
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
    }


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The same figures as lines of text."""
    figures = memory_stats(device).items()
    return "\n".join(f"{name}: {n:,} bytes" for name, n in figures if "bytes" in name)


def empty_cache() -> None:
    """Nothing is cached: memory goes back when its last tensor dies."""


def get_rng_state(device: DeviceLike = "npu") -> torch.Tensor:
    """The device generator's state as a CPU byte tensor."""
    return rng.default_generator(index_of(device)).get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "npu") -> None:
    """Continue random numbers from a saved state."""
    rng.default_generator(index_of(device)).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """States of all devices."""
    return [get_rng_state(d.index) for d in process.devices]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Set the states of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the current device."""
    rng.manual_seed(seed)


def seed() -> None:
    """Seed the current device from the operating system."""
    rng.default_generator(current.device).seed()


def seed_all() -> None:
    """Seed all devices from the operating system, alike."""
    seed()
    rng.manual_seed_all(initial_seed())


def initial_seed() -> int:
    """The seed of the current device."""
    return rng.default_generator(current.device).initial_seed()


#: What `torch.npu.memory` has as well, and an old name that torch_npu keeps.
MEMORY_FUNCTIONS = {
    **{
        f.__name__: f
        for f in (
            *(memory_allocated, max_memory_allocated, memory_reserved, max_memory_reserved),
            *(reset_peak_memory_stats, memory_stats, memory_summary, empty_cache),
        )
    },
    "reset_max_memory_allocated": reset_peak_memory_stats,
}
#: Every function above, and old names that torch_npu keeps.
FUNCTIONS = {
    **MEMORY_FUNCTIONS,
    **{
        f.__name__: f
        for f in (
            *(
                mem_get_info,
                get_rng_state,
                set_rng_state,
                get_rng_state_all,
                set_rng_state_all,
                manual_seed,
            ),
            *(seed, seed_all, initial_seed),
        )
    },
    "manual_seed_all": rng.manual_seed_all,
}
