"""The MLP of a layer from a configuration: dense, or routed experts with what stands beside."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ascend_infer.estimates.models.decoder import Mlp
from ascend_infer.estimates.models.family import ExpertKeys
from ascend_infer.estimates.models.keys import Keys
from ascend_infer.estimates.models.matrix import Matrix


def read_mlps(keys: Keys, hidden_size: int, layers: int) -> tuple[Mlp, ...]:
    """The MLP of each layer.

    Raises:
        AscendInferError: AI-MODEL-001 (missing key), AI-MODEL-002 (absurd value), AI-EST-004.
    """
    experts = keys.family.experts
    routed = [False] * layers if experts is None else _RULES[experts.layers](keys, layers)
    dense = None if all(routed) else _dense(keys, hidden_size)
    sparse = _sparse(keys, experts, hidden_size) if experts is not None and any(routed) else None
    chosen = {False: dense, True: sparse}
    return tuple(mlp for has in routed if (mlp := chosen[has]) is not None)


def _dense(keys: Keys, hidden_size: int) -> Mlp:
    multiple = keys.family.width_multiple
    width = keys.integer(keys.family.dense_width, multiple * hidden_size if multiple else None)
    return Mlp(matrices=_matrices(keys, hidden_size, width))


def _sparse(keys: Keys, experts: ExpertKeys, hidden_size: int) -> Mlp:
    count_key = next((key for key in experts.count if keys.fields.get(key) is not None), None)
    if count_key is None:
        raise keys.fields.missing(experts.count[0])
    count, active = keys.integer(count_key), keys.integer(experts.active)
    if active > count:
        raise keys.fields.absurd(experts.active, f"at most the {count} experts")
    width = keys.integer(experts.width)
    router = Matrix(
        name="router",
        operator="router",
        outputs=count,
        inputs=hidden_size,
        bias=experts.router_bias,
        quantised=False,
    )
    routed = _matrices(keys, hidden_size, width, "experts", copies=count, experts=experts)
    return Mlp(
        matrices=(router, *routed, *_shared(keys, experts, hidden_size, width)),
        vectors=count if experts.router_vector else 0,
        experts=count,
        active=active,
    )


def _shared(keys: Keys, experts: ExpertKeys, hidden_size: int, width: int) -> tuple[Matrix, ...]:
    """Experts that every token visits, as one MLP."""
    if experts.shared_width:
        total = _optional(keys, experts.shared_width)
    else:
        total = width * (_optional(keys, experts.shared_count) if experts.shared_count else 0)
    if not total:
        return ()
    matrices = _matrices(keys, hidden_size, total, "shared_experts")
    if not experts.shared_gate:
        return matrices
    gate = Matrix(
        name="shared_expert_gate",
        operator="router",
        outputs=1,
        inputs=hidden_size,
        quantised=False,
    )
    return (*matrices, gate)


def _optional(keys: Keys, key: str) -> int:
    """A count that may be 0, null or absent."""
    return keys.integer(key) if keys.fields.get(key) else 0


def _matrices(
    keys: Keys,
    hidden_size: int,
    width: int,
    part: str = "mlp",
    *,
    copies: int = 1,
    experts: ExpertKeys | None = None,
) -> tuple[Matrix, ...]:
    bias = keys.flag(keys.family.mlp_bias if experts is None else experts.bias)
    ups = ("gate_proj", "up_proj") if keys.family.mlp == "gated" else ("up_proj",)
    operator = "gate_up_proj" if len(ups) == 2 else "up_proj"
    prefix = "" if part == "mlp" else f"{part}."

    def matrix(name: str, operator: str, outputs: int, inputs: int, *, up: bool) -> Matrix:
        return Matrix(
            name=prefix + name,
            operator=prefix + operator,
            outputs=outputs,
            inputs=inputs,
            copies=copies,
            routed=experts is not None,
            bias=bias,
            split="outputs" if up else "inputs",
            units=width,
        )

    return (
        *(matrix(name, operator, width, hidden_size, up=True) for name in ups),
        matrix("down_proj", "down_proj", hidden_size, width, up=False),
    )


# ------------------------------------------------------------------ which layers have experts


def _all(keys: Keys, layers: int) -> list[bool]:
    return [True] * layers


def _after_first(keys: Keys, layers: int, otherwise: int | None = None) -> list[bool]:
    """Dense layers come first; `otherwise` as many where the configuration leaves it out."""
    key = "first_k_dense_replace"
    dense = 0 if keys.fields.get(key) == 0 else keys.integer(key, otherwise)
    every = keys.integer("moe_layer_freq", 1)
    return [layer >= dense and layer % every == 0 for layer in range(layers)]


def _sparse_step(keys: Keys, layers: int) -> list[bool]:
    """Every so many layers, with exceptions by number."""
    step = keys.integer("decoder_sparse_step", 1)
    exceptions = keys.fields.get("mlp_only_layers") or ()
    if not isinstance(exceptions, (list, tuple)):
        raise keys.fields.absurd("mlp_only_layers", "a list of layer numbers")
    return [layer not in exceptions and (layer + 1) % step == 0 for layer in range(layers)]


def _types(keys: Keys, layers: int) -> list[bool]:
    """A list with one word per layer, or dense layers first, one unless stated."""
    words = keys.fields.get("mlp_layer_types")
    if words is None:
        return _after_first(keys, layers, otherwise=1)
    known = {"dense": False, "sparse": True}
    if not isinstance(words, list) or len(words) != layers or not set(words) <= known.keys():
        raise keys.fields.absurd("mlp_layer_types", f"{layers} of `dense` and `sparse`")
    return [known[word] for word in words]


def _interleaved(keys: Keys, layers: int) -> list[bool]:
    """A list of layer numbers, or the last of every so many."""
    listed = keys.fields.get("moe_layers")
    if listed is None:
        step = keys.integer("interleave_moe_layer_step", 1)
        return [(layer + 1) % step == 0 for layer in range(layers)]
    if not isinstance(listed, list):
        raise keys.fields.absurd("moe_layers", "a list of layer numbers")
    return [layer in listed for layer in range(layers)]


def _range(keys: Keys, layers: int) -> list[bool]:
    """Every so many layers between a first and a last one; a last one of -1 is the end."""
    first, last = (_number(keys, f"moe_layer_{end}_index") for end in ("start", "end"))
    step = keys.integer("moe_layer_interval", 1)
    last = layers - 1 if last == -1 else last
    return [first <= layer <= last and (layer + 1) % step == 0 for layer in range(layers)]


def _number(keys: Keys, key: str) -> int:
    value = keys.fields.get(key)
    if value is None:
        raise keys.fields.missing(key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise keys.fields.absurd(key, "a layer number")
    return value


_RULES: Mapping[str, Callable[[Keys, int], list[bool]]] = {
    "all": _all,
    "after_first": _after_first,
    "sparse_step": _sparse_step,
    "types": _types,
    "interleaved": _interleaved,
    "range": _range,
}
