"""The paged KV cache is written: token t goes to the slot that `slot_indices` names."""

from __future__ import annotations

from torch import Tensor

from kernels_npu.sim.device.operators.refusal import refuse_mixed_dtypes, refused
from kernels_npu.sim.device.operators.whole import WholeOperator

_NAME = "_npu_reshape_and_cache"


def reshape_and_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_indices: Tensor
) -> None:
    """Write key and value [tokens, kv heads, head size] into caches [blocks, block, heads, size].

    slot_indices: [tokens] int32; slot s is row s % block of block s // block. Negative slots belong
    to padding and write nothing; of tokens with the same slot the last one stays.

    Raises:
        DeviceError: AI-DEV-015 for shapes or dtypes that do not fit, or a slot behind the cache.
    """
    check(key, value, key_cache, value_cache, slot_indices)
    slots = slot_indices.long()
    capacity = key_cache.shape[0] * key_cache.shape[1]
    if slots.numel() and int(slots.max()) >= capacity:
        raise refused(
            _NAME,
            f"slot {int(slots.max())} is behind the {capacity} slots of the cache",
            rule="slots count from 0 to blocks * block size - 1; negative ones are padding",
            fix="take slots from the block table: block * block_size + offset",
            acl_error=507015,
        )
    kept = slots >= 0
    for source, cache in ((key, key_cache), (value, value_cache)):
        cache[slots[kept] // cache.shape[1], slots[kept] % cache.shape[1]] = source[kept]


def check(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_indices: Tensor
) -> None:
    """Refuse shapes and dtypes that do not fit each other."""
    refuse_mixed_dtypes(_NAME, key=key, value=value, key_cache=key_cache, value_cache=value_cache)
    for source, cache, name in ((key, key_cache, "key"), (value, value_cache, "value")):
        if cache.dim() != 4 or source.shape[1:] != cache.shape[2:]:
            raise refused(
                _NAME,
                f"{name} {tuple(source.shape)} does not fit its cache {tuple(cache.shape)}",
                rule="tokens are [tokens, kv heads, head size], the cache has "
                "[blocks, block size, kv heads, head size]",
                fix=f"{name}.view(-1, *{name}_cache.shape[2:])",
            )
    if not key.shape[0] == value.shape[0] == slot_indices.numel():
        raise refused(
            _NAME,
            f"{key.shape[0]} keys, {value.shape[0]} values and {slot_indices.numel()} slots",
            rule="each token has one slot",
            fix="cut keys and values to the tokens that have a slot",
        )


OPERATORS = (
    WholeOperator(
        namespace="atb",
        schema="_npu_reshape_and_cache(Tensor key, Tensor value, Tensor(a!) key_cache, "
        "Tensor(b!) value_cache, Tensor slot_indices) -> ()",
        compute=reshape_and_cache,
        shapes=check,
    ),
)
