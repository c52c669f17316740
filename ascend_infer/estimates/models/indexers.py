"""Which layers choose the tokens that they attend to, and which take an earlier layer's choice."""

from __future__ import annotations

from typing import Literal

from ascend_infer.estimates.models.keys import Keys
from ascend_infer.estimates.models.matrix import Matrix
from ascend_infer.estimates.models.scan import Indexer

Choice = Literal["none", "own", "shared"]

_WORDS: dict[str, Choice] = {"full": "own", "shared": "shared", "F": "own", "S": "shared"}


def read_choices(keys: Keys, layers: int) -> tuple[Choice, ...]:
    """Where each layer's choice of tokens comes from.

    Raises:
        UsageError: AI-MODEL-002 for a list or pattern that does not fit the layers.
    """
    everywhere: dict[str, Choice] = {"": "none", "every layer": "own"}
    if (choice := everywhere.get(keys.family.indexer)) is not None:
        return (choice,) * layers
    for key in ("indexer_types", "index_topk_pattern"):
        words = keys.fields.get(key)
        if words is not None:
            fits = isinstance(words, (list, str)) and len(words) == layers
            if not fits or any(word not in _WORDS for word in map(str, words)):
                raise keys.fields.absurd(key, f"`full` or `shared` for each of {layers} layers")
            return tuple(_WORDS[str(word)] for word in words)
    every = keys.integer("index_topk_freq", 1)
    skipped = keys.fields.get("index_skip_topk_offset")
    first = 0 if skipped == 0 else keys.integer("index_skip_topk_offset", 2)
    owns = [max(layer - first + 1, 0) % every == 0 for layer in range(layers)]
    return tuple(_WORDS["full" if own else "shared"] for own in owns)


def read_indexer(
    keys: Keys, hidden_size: int, choice: Choice
) -> tuple[Indexer | None, tuple[Matrix, ...], int]:
    """What chooses tokens, its projections, and the elements of its norm; whole on every rank.

    Raises:
        UsageError: AI-MODEL-001 (missing key), AI-MODEL-002 (absurd value).
    """
    if choice == "none":
        return None, (), 0
    heads, dim = keys.integer("index_n_heads"), keys.integer("index_head_dim")
    indexer = Indexer(
        heads=heads, dim=dim, top_k=keys.integer("index_topk"), shared=choice == "shared"
    )
    if indexer.shared:
        return indexer, (), 0
    shapes = (
        ("wq_b", heads * dim, keys.integer("q_lora_rank")),
        ("wk", dim, hidden_size),
        ("weights_proj", heads, hidden_size),
    )
    matrices = tuple(
        Matrix(name=f"indexer.{n}", operator=f"indexer.{n}", outputs=outputs, inputs=inputs)
        for n, outputs, inputs in shapes
    )
    return indexer, matrices, 2 * dim
