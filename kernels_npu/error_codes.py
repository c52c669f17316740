"""The catalogue of error codes: code -> its meaning in one line.

Families: SRC kernel source, TYPE dtypes and shapes of a launch, MEM on-chip memory, SYNC flags and
barriers, RACE unordered accesses, INIT uninitialised data, BOUND out of bounds, DEV simulated device,
CAP graph capture, STREAM stream order, OP operators and their registry, GRAPH decode graphs,
VERIFY failed verification, MODEL configs, weights and tokenizers, CLI the command line, ENV installation.
"""

from __future__ import annotations

CODES: dict[str, str] = {
    "AI-SRC-030": "A dtype name is not one of the dialect's.",
    "AI-DEV-010": "The named SoC is not in the table of chips.",
}
