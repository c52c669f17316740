"""Which layers of a decoder see a window of recent keys only."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ascend_infer.estimates.models.keys import Keys

#: Kinds of layers that keep keys and values; a chunk is a window that moves in steps.
_KINDS = {
    "full_attention": False,
    "indexed_attention": False,
    "sliding_attention": True,
    "chunked_attention": True,
    "1": False,  # attn_type_list of MiniMax: 1 attention, 0 a recurrent state
}
#: Keys of what kind each layer is.
_LISTS = ("layer_types", "attn_type_list")


def read_windows(keys: Keys, layers: int) -> tuple[int, ...]:
    """The window of each layer in keys, 0 for layers that see all.

    Raises:
        AscendInferError: AI-MODEL-001, AI-MODEL-002, AI-EST-004 for layers that keep other states.
    """
    _kinds(keys, layers)  # refuses layers that keep other states, whatever the rule
    return tuple(_RULES[keys.family.windows](keys, layers))


def _never(keys: Keys, layers: int) -> list[int]:
    return [0] * layers


def _always(keys: Keys, layers: int) -> list[int]:
    return [_window(keys)] * layers


def _if_switched_on(keys: Keys, layers: int) -> list[int]:
    return _by_kind(keys, layers, lambda layer: True) if _switched_on(keys) else [0] * layers


def _upper(keys: Keys, layers: int) -> list[int]:
    """Layers from max_window_layers on."""
    if not _switched_on(keys):
        return [0] * layers
    full = keys.fields.get("max_window_layers")
    first = 0 if full == 0 else keys.integer("max_window_layers")
    return _by_kind(keys, layers, lambda layer: layer >= first)


def _types(keys: Keys, layers: int) -> list[int]:
    """A word per layer, or all but the last of every pattern."""
    pattern = keys.fields.get("sliding_window_pattern")
    if isinstance(pattern, str):
        return _by_letters(keys, layers, pattern)
    period = keys.integer("sliding_window_pattern", keys.family.pattern or layers + 1)
    return _by_kind(keys, layers, lambda layer: (layer + 1) % period != 0)


def _by_letters(keys: Keys, layers: int, pattern: str) -> list[int]:
    """A letter per layer, repeated: `L` local, `G` global; the last layer is global."""
    if not pattern or set(pattern) - set("LG"):
        raise keys.fields.absurd("sliding_window_pattern", "letters L and G, or a period")
    return _by_kind(
        keys,
        layers,
        lambda layer: pattern[layer % len(pattern)] == "L" and layer != layers - 1,
    )


def _chunks(keys: Keys, layers: int) -> list[int]:
    """Chunks in the layers with rotary positions; a query sees one chunk at most."""
    size = _window(keys, "attention_chunk_size")
    period = keys.integer("no_rope_layer_interval", keys.family.pattern)
    rotated = keys.fields.get("no_rope_layers") or [
        (layer + 1) % period != 0 for layer in range(layers)
    ]
    if not isinstance(rotated, list) or len(rotated) != layers:
        raise keys.fields.absurd("no_rope_layers", f"{layers} of 0 and 1")
    kinds = _kinds(keys, layers) or rotated
    return [size if windowed else 0 for windowed in kinds]


def _by_kind(keys: Keys, layers: int, default: Callable[[int], bool]) -> list[int]:
    """The window where `layer_types` says so, or else where `default` does."""
    kinds = _kinds(keys, layers) or [default(layer) for layer in range(layers)]
    window = _window(keys) if any(kinds) else 0
    return [window if windowed else 0 for windowed in kinds]


def _kinds(keys: Keys, layers: int) -> list[bool] | None:
    """Whether each layer is windowed by `layer_types` or its like; None without the key."""
    key = next((key for key in _LISTS if keys.fields.get(key) is not None), None)
    if key is None:
        return None
    words = keys.fields.get(key)
    if not isinstance(words, list) or len(words) != layers:
        raise keys.fields.absurd(key, f"one word for each of {layers} layers")
    words = [str(word) for word in words]
    others = sorted(set(words) - _KINDS.keys())
    if others:
        raise keys.not_covered(
            f"layers of the kinds {', '.join(others)[:80]}",
            "every layer has attention over cached keys and values; states that are updated in "
            "place, as in hybrid models, are another ledger",
        )
    return [_KINDS[word] for word in words]


def _window(keys: Keys, key: str = "sliding_window") -> int:
    """The window; 0 where it is null, or absent and has no default."""
    values = keys.fields.values
    if values.get(key) is None and (key in values or key not in keys.family.defaults):
        return 0
    return keys.integer(key)


def _switched_on(keys: Keys) -> bool:
    return keys.fields.boolean("use_sliding_window", False)


_RULES: Mapping[str, Callable[[Keys, int], list[int]]] = {
    "never": _never,
    "always": _always,
    "types": _types,
    "upper": _upper,
    "chunks": _chunks,
    "if switched on": _if_switched_on,
}
