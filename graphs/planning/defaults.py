"""The capture sizes that vLLM and vllm-ascend choose when the user gives none.

Read in the sources of both (see `DefaultRule.source`), for plain decode: one token per sequence.
With speculative decoding the lists are in tokens and vLLM adds further sizes. vLLM also adds
`max_num_batched_tokens` when that is below its ceiling, which it only is for tiny settings; that is
left out here.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphs.errors import PlanInputError


@dataclass(frozen=True, kw_only=True)
class DefaultRule:
    """How a default list follows from `max_num_seqs`.

    Attributes:
        name: as in `default_sizes(…, rule=name)`.
        headroom: the ladder ends at `headroom * max_num_seqs`, or at `ceiling` if that is less.
        ceiling: sizes that are never exceeded.
        exact_largest: whether `max_num_seqs` itself is added to the ladder.
        source: where the rule was read.
    """

    name: str
    headroom: int
    ceiling: int = 512
    exact_largest: bool = False
    source: str


RULES: dict[str, DefaultRule] = {
    rule.name: rule
    for rule in (
        DefaultRule(
            name="vllm",
            headroom=2,
            source="vllm-project/vllm, vllm/config/vllm.py, _set_cudagraph_sizes, commit 000fc94b",
        ),
        DefaultRule(
            name="vllm-exact",
            headroom=2,
            exact_largest=True,
            source="the same since vllm-project/vllm#57355, merged 17 September 2026",
        ),
        DefaultRule(
            name="vllm-ascend",
            headroom=1,
            source="vllm-ascend 0.23.0, vllm_ascend/platform.py, default ceiling of capture sizes; "
            "described in vllm-project/vllm-ascend#16049",
        ),
    )
}


def default_sizes(max_num_seqs: int, rule: str = "vllm") -> tuple[int, ...]:
    """The default `cudagraph_capture_sizes`, ascending.

    1, 2, 4, multiples of 8 below 256, multiples of 16 from there on.

    Args:
        max_num_seqs: vLLM's setting of that name.
        rule: a key of `RULES`.

    Raises:
        PlanInputError: AI-GRAPH-042 for a rule that is not known or a number below 1.
    """
    chosen = RULES.get(rule)
    if chosen is None or max_num_seqs < 1:
        raise PlanInputError(
            "AI-GRAPH-042",
            f"default sizes of {rule!r} for max_num_seqs={max_num_seqs}",
            rule="the rules are " + ", ".join(RULES),
            fix="choose one of them, and a max_num_seqs of at least 1",
        )
    top = min(max_num_seqs * chosen.headroom, chosen.ceiling)
    ladder = {1, 2, 4, *range(8, 256, 8), *range(256, top + 1, 16)}
    if chosen.exact_largest:
        ladder.add(max_num_seqs)
    return tuple(sorted(size for size in ladder if size <= top))


def full_decode_sizes(sizes: tuple[int, ...], max_num_seqs: int) -> tuple[int, ...]:
    """Those of `sizes` that vLLM captures as full decode graphs: at most `max_num_seqs` rows.

    Its dispatcher registers no larger ones, so a batch beyond the largest of these leaves the full
    graph (vllm/v1/cudagraph_dispatcher.py, initialize_cudagraph_keys).
    """
    return tuple(size for size in sizes if size <= max_num_seqs)
