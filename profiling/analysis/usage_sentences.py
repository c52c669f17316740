"""How a launch uses the chip's cores and its paths to memory."""

from __future__ import annotations

import math
from collections.abc import Iterator

from profiling.analysis.figures import number
from profiling.analysis.pipes import CORES
from profiling.analysis.sentence import Sentence
from profiling.devices import Chip
from profiling.records.kernel import OpProfile
from profiling.records.table import Figure, FileKind

#: Ours: with more of the cores' turns empty, another block count gains something.
FEW_CORES = 0.80
#: Ours: packets in the vendor's cost model that are half of this and less are slow.
SMALL_PACKET = 512
#: Ours: fewer instructions are a start-up, not a pattern.
_FEW_INSTRUCTIONS = 8

#: Of each kind of core: (pipe of its instructions, the paths that it moves to or from memory).
_PACKETS = {
    "aic": (("mte2", ("gm_to_l1",)),),
    "aiv": (("mte2", ("gm_to_ub",)), ("mte3", ("ub_to_gm",))),
}


def core_usage_sentences(kernel: OpProfile, chip: Chip) -> Iterator[Sentence]:
    """Blocks against cores: how many rounds, and how full the last one is."""
    blocks = kernel.info_figure("block_dim")
    if blocks is None or kernel.info is None or not isinstance(blocks.value, (int, float)):
        return
    # Blocks of a mix kernel are counted by their cube cores, each with its vector cores.
    vector = kernel.info.op_type.lower() == "vector"
    cores, count = chip.vector_cores if vector else chip.cube_cores, int(blocks.value)
    if count < 1 or cores < 1:
        return
    rounds = math.ceil(count / cores)
    last = count - (rounds - 1) * cores
    share = count / (rounds * cores)
    kind = "vector cores" if vector else "cores"
    if rounds == 1:
        what = f"{_blocks(count)} on {cores} {kind} of {chip.name}: {cores - count} idle"
    else:
        what = (
            f"{_blocks(count)} on {cores} {kind} of {chip.name}: {rounds} rounds, {last} busy in "
            "the last"
        )
    few = share < FEW_CORES
    yield Sentence(
        topic="cores",
        text=f"{what}; {share:.0%} of the turns are used",
        rule=f"blocks over rounds x cores; under {FEW_CORES:.0%} is reported. Blocks that take "
        f"equally long are assumed. Cores as in {chip.source}",
        refs=(blocks,),
        flagged=few,
    )


def packet_sentences(kernel: OpProfile) -> Iterator[Sentence]:
    """Bytes per move instruction, where they are small."""
    for side in CORES:
        for pipe, paths in _PACKETS[side]:
            instructions = [
                f for _, f in kernel.figures(FileKind.MEMORY, f"{side}_{pipe}_instructions")
            ]
            volumes = [
                f for path in paths for _, f in kernel.figures(FileKind.MEMORY, f"{path}_datas_kb")
            ]
            count, moved = _total(instructions), _total(volumes) * 1024
            if count < _FEW_INSTRUCTIONS or not moved or moved / count >= SMALL_PACKET:
                continue
            yield Sentence(
                topic="packets",
                text=f"{' and '.join(paths)}: {moved:,.0f} B in {count:,.0f} {pipe} instructions, "
                f"{moved / count:,.0f} B each",
                rule=f"under {SMALL_PACKET} B is reported: in the vendor's cost model "
                "(msopmodeling) packets of 64 to 256 B get about 0.3 of the bandwidth; move more "
                "rows or longer rows per instruction",
                refs=(max(volumes, key=number), max(instructions, key=number)),
                flagged=True,
            )


def _blocks(count: int) -> str:
    return f"{count} block" + "s" * (count != 1)


def _total(figures: list[Figure]) -> float:
    return sum(map(number, figures))
