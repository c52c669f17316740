"""Backward passes in the thread that asks for them.

PyTorch gives every device of the accelerator a thread of its own. It counts one device for a Python
back end, and those threads do not know what is current in the caller's.
"""

from __future__ import annotations

import functools
from typing import Any

import torch


def install() -> None:
    """Route `Tensor.backward` and `torch.autograd.grad` around the device threads."""
    places: tuple[Any, ...] = (torch.autograd, torch.autograd.graph)
    run = torch.autograd.graph._engine_run_backward

    @functools.wraps(run)
    def in_this_thread(*args: Any, **kwargs: Any) -> Any:
        with torch.autograd.set_multithreading_enabled(False):
            return run(*args, **kwargs)

    for place in places:
        place._engine_run_backward = in_this_thread
