"""Values without data: what a script computes with while its kernels are only looked at.

Tensors live on PyTorch's `meta` device, so that shapes and dtypes are right; whatever needs data
gives `INERT`, which absorbs every further use.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Inert:
    """Absorbs calls, attributes, indices and arithmetic."""

    def _self(self, *args: Any, **kwargs: Any) -> Inert:
        return self

    __call__ = __getitem__ = __enter__ = _self
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _self
    __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _self
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __invert__ = __neg__ = __abs__ = _self
    __matmul__ = __rmatmul__ = __lshift__ = __rshift__ = _self
    __lt__ = __le__ = __gt__ = __ge__ = _self
    __eq__ = __ne__ = _self  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Inert:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)  # protocols must not be claimed by accident
        return self

    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Inert:
        """Tensor operations take it for one of theirs."""
        return INERT

    def __exit__(self, *args: object) -> None:
        """Let exceptions pass."""

    def __setitem__(self, key: object, value: object) -> None:
        """Forget it."""

    def __iter__(self) -> Iterator[Inert]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __int__(self) -> int:
        return 1

    def __float__(self) -> float:
        return 1.0

    def __repr__(self) -> str:
        return "<value that is not computed>"

    def __format__(self, spec: str) -> str:
        return repr(self)


INERT = Inert()


def is_unknown(value: object) -> bool:
    """Whether `value` is, or holds, something that was not computed."""
    if isinstance(value, dict):
        return any(is_unknown(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return any(is_unknown(v) for v in value)
    return isinstance(value, Inert)


#: Tensor operations after which a script's own computation is taken for its reference.
_ENOUGH = 2000

#: Tensor methods that only say where a tensor is.
_PLACING = frozenset(("npu", "cpu", "cuda", "contiguous", "clone", "detach", "pin_memory"))


class DataFree:
    """Tensors made while `active` have shapes and dtypes only.

    A long computation without a kernel in between is a script's reference, whose shapes nobody
    needs: from then on everything is unknown, until `renew`.
    """

    def __init__(self) -> None:
        self._left = _ENOUGH

    def renew(self) -> None:
        """A kernel was made or called: shapes matter again."""
        self._left = _ENOUGH

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Without torch there are no tensors, and nothing is done."""
        try:
            import torch
            from torch.overrides import TorchFunctionMode
        except ImportError:
            yield
            return
        outer = self

        class Meta(TorchFunctionMode):
            def __torch_function__(
                self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                return outer._call(func, args, dict(kwargs or {}))

        comparisons = (
            (torch.testing, ("assert_close", "assert_allclose")),
            (
                sys.modules.get("numpy.testing"),
                ("assert_allclose", "assert_array_equal", "assert_equal"),
            ),
        )
        with _passing(comparisons), torch.device("meta"), Meta():
            yield

    def _call(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """One tensor operation on shapes."""
        import torch
        from torch.utils._device import _device_constructors

        self._left -= 1
        if self._left < 0 or is_unknown(args) or is_unknown(kwargs):
            return INERT
        name = getattr(func, "__name__", "")
        if name in _PLACING and args and isinstance(args[0], torch.Tensor):
            return args[0]
        if name == "to":
            args = tuple(a for a in args if not isinstance(a, (str, torch.device)))
            kwargs.pop("device", None)
            if len(args) == 1 and not kwargs:
                return args[0]
        if "device" in kwargs or func in _device_constructors():
            kwargs["device"] = "meta"
        kwargs.pop("generator", None)
        kwargs.pop("pin_memory", None)
        try:
            result = func(*args, **kwargs)
        except Exception:  # noqa: BLE001 - it needs data, or the device cannot do it
            return INERT
        if isinstance(result, torch.Tensor) and result.device.type != "meta":
            return torch.empty_like(result, device="meta")  # made of host data, such as NumPy's
        return result


@contextlib.contextmanager
def _passing(comparisons: Iterable[tuple[Any, tuple[str, ...]]]) -> Iterator[None]:
    """Comparisons of values pass: there are no values."""
    replaced = [
        (module, name, getattr(module, name))
        for module, names in comparisons
        for name in names
        if hasattr(module, name)
    ]
    for module, name, _ in replaced:
        setattr(module, name, INERT)
    try:
        yield
    finally:
        for module, name, value in replaced:
            setattr(module, name, value)
