"""A request on its way through the server."""

from __future__ import annotations


class Sequence:
    """What the engine keeps of a request that it has not finished.

    index: of the request. prompt, target: tokens of the prompt and of the whole output. prefix: its
    shared prefix, -1 for none; prefix_blocks: whole blocks of it. emitted: output tokens given.
    goal: tokens that its prefill has to have in the cache; computed: how many are there.
    blocks: those it holds alone. shared: those of the prefix that it uses.
    finish: number of the decode step that gives its last token, -1 while it does not decode.
    begin: decode steps that were over when it began. remainder: what `Growth.add` returned.
    """

    __slots__ = (
        "begin",
        "blocks",
        "computed",
        "emitted",
        "finish",
        "first_token",
        "goal",
        "index",
        "prefix",
        "prefix_blocks",
        "prompt",
        "remainder",
        "shared",
        "target",
    )

    def __init__(
        self, index: int, prompt: int, target: int, prefix: int, prefix_blocks: int
    ) -> None:
        self.index = index
        self.prompt = prompt
        self.target = target
        self.prefix = prefix
        self.prefix_blocks = prefix_blocks
        self.emitted = 0
        self.goal = prompt
        self.computed = 0
        self.blocks = 0
        self.shared = 0
        self.finish = -1
        self.begin = 0
        self.remainder = 0
        self.first_token = 0.0
