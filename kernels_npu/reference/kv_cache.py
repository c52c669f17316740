"""Writing new keys and values into the paged cache."""

from __future__ import annotations

import torch


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Store row i of `key` and `value` at slot `slot_mapping[i]`; slot -1 stores nothing.

    A row without a slot is written over some row that has one, with that row's own content, or over
    slot 0 with what slot 0 holds, so that the shape of the work does not depend on the data.
    """
    if len(slot_mapping) == 0:
        return
    slots = slot_mapping.long()
    # The first row with a slot, or row 0. Kept as a row of one: an index without dimensions would
    # be read by the host.
    donor = (slots >= 0).int().argmax(0, keepdim=True)
    rows = torch.where(slots >= 0, torch.arange(len(slots), device=slots.device), donor)
    stands = (slots[donor] >= 0)[:, None, None]
    target = slots[rows].clamp_min(0)
    for new, cache in ((key, key_cache), (value, value_cache)):
        flat = cache.view(-1, *cache.shape[2:])
        flat[target] = torch.where(stands, new[rows].to(cache.dtype), flat[target])
