from __future__ import annotations

import pytest
import torch

from graphs.device_api import DeviceApi
from graphs.verification.poison import poison, poisoned


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_poison_is_a_nan_that_arithmetic_does_not_make(dtype: torch.dtype) -> None:
    values = torch.randn(5, 7, generator=torch.Generator().manual_seed(0)).to(dtype)
    poison(values[1:])
    assert values[1:].isnan().all() and not values[0].isnan().any()
    made = torch.tensor([float("inf")], dtype=dtype)
    values[4] = made - made
    assert poisoned(values).any(1).tolist() == [False, True, True, True, False]


def test_poison_survives_the_way_to_the_host(api: DeviceApi) -> None:
    tensor = torch.zeros(3, 4, device=api.device)
    poison(tensor)
    tensor[1].fill_(float("nan"))
    assert poisoned(tensor.cpu()).all(1).tolist() == [True, False, True]
