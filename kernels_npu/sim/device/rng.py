"""Random numbers: one generator per device; the same seed gives the same numbers as on the CPU."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import torch

from kernels_npu.sim.device.capture import forbid_generator
from kernels_npu.sim.device.errors import DeviceError, NotSimulatedError
from kernels_npu.sim.device.schemas import OpInfo, packet_name
from kernels_npu.sim.device.state import device_state, process

_HostGenerator = torch._C.Generator
_generators: dict[int, Generator] = {}
#: PyTorch hands kernels a new Python object for the same generator; the address of its state
#: identifies it.
_by_address: WeakValueDictionary[int, Generator] = WeakValueDictionary()
#: What an operation adds to the offset of the counter-based generator that a device has. The
#: vendor's depends on the operation; hosts that take a draw back reckon with this one.
_OFFSET_PER_DRAW = 4
#: So many draws of a generator can be taken back.
_DRAWS_KEPT = 16


class _GeneratorType(type):
    """`torch.Generator(device="npu")` makes the device's; `isinstance` sees the host's too."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls is TorchGenerator:
            return isinstance(instance, _HostGenerator)
        return type.__instancecheck__(cls, instance)


class Generator(_HostGenerator):
    """The random state of one device: the host's Mersenne twister under the device's name.

    Its offset counts the draws since the last seed or state, 4 for each.
    """

    def __new__(cls, index: int) -> Generator:
        return super().__new__(cls, device="cpu")  # type: ignore[call-arg]

    def __init__(self, index: int) -> None:
        self.index = index
        self._restart()
        _by_address[self._cdata] = self  # type: ignore[attr-defined]

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device whose operations draw from this generator."""
        return torch.device("npu", self.index)

    def _restart(self) -> None:
        self._offset = 0
        self._before: OrderedDict[int, torch.Tensor] = OrderedDict()  # offset -> state of the host

    def draw(self) -> None:
        """An operation is about to draw."""
        self._before[self._offset] = super().get_state()
        if len(self._before) > _DRAWS_KEPT:
            self._before.popitem(last=False)
        self._offset += _OFFSET_PER_DRAW

    def get_offset(self) -> int:
        """How far the generator is behind its seed: a multiple of 4."""
        forbid_generator("get_offset")
        return self._offset

    def set_offset(self, offset: int) -> Generator:
        """Take the draws since `offset` back.

        Raises:
            NotSimulatedError: AI-DEV-008 for an offset where none of the last 16 draws began.
        """
        forbid_generator("set_offset")
        if offset == self._offset:
            return self
        if offset not in self._before:
            known = ", ".join(map(str, self._before)) or "none"
            raise NotSimulatedError(
                "AI-DEV-008",
                f"Generator.set_offset({offset}) at {self._offset}, with draws kept from {known}",
                rule="numbers come from a generator of the host, which can only go back to where "
                f"one of its last {_DRAWS_KEPT} draws began",
                fix="manual_seed, or set_state of a state that get_state gave",
            )
        super().set_state(self._before[offset])
        for later in [known for known in self._before if known >= offset]:
            del self._before[later]
        self._offset = offset
        return self

    def manual_seed(self, seed: int) -> Generator:
        """Restart from `seed`."""
        self._restart()
        super().manual_seed(seed)
        return self

    def seed(self) -> int:
        """Restart from a seed of the operating system and return it."""
        forbid_generator("seed")
        self._restart()
        return super().seed()

    def get_state(self) -> torch.Tensor:
        """The state as a CPU byte tensor."""
        forbid_generator("get_state")
        return super().get_state()

    def set_state(self, state: torch.Tensor) -> Generator:
        """Continue from a state of `get_state`."""
        forbid_generator("set_state")
        super().set_state(state)
        self._restart()
        return self

    def clone_state(self) -> Generator:
        """Another generator of the device in the same state."""
        return _restored(self.index, self.get_state())

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles stay generators of the device."""
        return _restored, (self.index, self.get_state())


def _restored(index: int, state: torch.Tensor) -> Generator:
    return Generator(index).set_state(state)


class TorchGenerator(metaclass=_GeneratorType):
    """Stands for `torch.Generator`."""

    def __new__(cls, device: torch.device | str = "cpu") -> Any:
        wanted = torch.device(device)
        if wanted.type == "npu":
            return Generator(device_state(wanted.index).index)
        return _HostGenerator(device=wanted)


def default_generator(index: int) -> Generator:
    """The generator that operations without `generator=` draw from."""
    found = _generators.get(index)
    if found is None:
        found = _generators[index] = Generator(index)
        _HostGenerator.manual_seed(found, torch.initial_seed())
    return found


def manual_seed(seed: int, index: int | None = None) -> None:
    """Seed one device."""
    default_generator(device_state(index).index).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed all devices; `torch.manual_seed` calls this."""
    for device in process.devices:
        manual_seed(seed, device.index)


#: Operations without a generator argument that have an overload with one.
_WITH_GENERATOR = {
    "rand": "generator",
    "randn": "generator",
    "randperm": "generator",
    "randint": "generator",
    "randint.low": "low_generator",
    "rand_like": "generator",
    "randn_like": "generator",
    "randint_like": "generator",
    "randint_like.low_dtype": "low_generator_dtype",
}


def runner(info: OpInfo) -> Callable[[int], Callable[..., Any]]:
    """How to run a random operation: device index -> a function of the CPU arguments."""
    if info.generator:
        return _with_generator(info.op._op)
    overload = _WITH_GENERATOR.get(info.name)
    packet = getattr(torch.ops.aten, packet_name(info.op))
    if overload is not None and overload in packet.overloads():
        return _with_generator(getattr(packet, overload)._op)
    return _with_borrowed_state(info.op._op)


def _with_generator(call: Callable[..., Any]) -> Callable[[int], Callable[..., Any]]:
    def bind(index: int) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            given: Any = kwargs.get("generator")
            owner = default_generator(index) if given is None else _by_address.get(given._cdata)
            if owner is None:
                raise DeviceError(
                    "AI-DEV-009",
                    f"Expected a 'npu' device type for generator but found '{given.device}'",
                    rule="a generator belongs to the device whose operations draw from it",
                    fix="torch.Generator(device='npu')",
                )
            owner.draw()
            kwargs["generator"] = owner
            return call(*args, **kwargs)

        return run

    return bind


def _with_borrowed_state(call: Callable[..., Any]) -> Callable[[int], Callable[..., Any]]:
    """For operations that always draw from the host's generator: lend it the device's state."""

    def bind(index: int) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            device, shared = default_generator(index), torch.default_generator
            saved = shared.get_state()
            device.draw()
            shared.set_state(_HostGenerator.get_state(device))
            try:
                return call(*args, **kwargs)
            finally:
                _HostGenerator.set_state(device, shared.get_state())
                shared.set_state(saved)

        return run

    return bind
