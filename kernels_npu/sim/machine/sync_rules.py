"""The rules of races, flags and barriers."""

from __future__ import annotations

from kernels_npu.sim.machine.rule import Rule


def _race(kind: str) -> Rule:
    second = {"RAW": "the read", "WAR": "the write", "WAW": "the second write"}[kind]
    first = {"RAW": "the write", "WAR": "the read", "WAW": "the first write"}[kind]
    return Rule(
        check="races",
        severity="error or warning",
        rule=f"{second} must be ordered after {first}: by program order on one pipe, a flag, a "
        "barrier, or a cross-core flag",
        fix=f"order {second} after {first}",
        sanitizer=f"racecheck: Potential {kind} hazard detected",
    )


_UNPAIRED = "synccheck: Unpaired set_flag/wait_flag instructions detected"

SYNC_RULES: dict[str, Rule] = {
    "AI-RACE-001": _race("RAW"),
    "AI-RACE-002": _race("WAR"),
    "AI-RACE-003": _race("WAW"),
    "AI-RACE-004": Rule(
        check="races",
        severity="warning",
        rule="blocks that write the same bytes to the same place do no harm, as long as the bytes "
        "are the same for every input",
        fix="let one block do the work, or give each block its own part",
        sanitizer="racecheck: Potential WAW hazard detected",
    ),
    "AI-RACE-005": Rule(
        check="races",
        rule="a product of fewer than 10 blocks of 16x16 can overtake the one before it; between "
        "two of them on one accumulator stands a barrier of PIPE_M, or a flag to another pipe and "
        "back",
        fix='add T.pipe_barrier("m") before the second product',
        sanitizer="racecheck: Potential RAW hazard detected",
        severity="warning",
    ),
    "AI-SYNC-001": Rule(
        check="flags",
        rule="a wait_flag consumes one set_flag of the same pipes and event id that was issued "
        "before it",
        fix="add the T.set_flag on every path to the wait",
        sanitizer=_UNPAIRED,
    ),
    "AI-SYNC-002": Rule(
        check="always",
        rule="a core that waits must be released by a core that is not waiting",
        fix="set the flag that is waited for on every path, on the core that should signal",
        sanitizer="none: the device hangs until its watchdog ends the kernel",
    ),
    "AI-SYNC-003": Rule(
        check="flags",
        severity="warning",
        rule="flags keep their state when a kernel ends: what is set must be waited for",
        fix="wait for every flag that is set",
        sanitizer=_UNPAIRED,
    ),
    "AI-SYNC-004": Rule(
        check="flags",
        severity="warning",
        rule="a flag of the hardware is one bit: it must be waited for before it is set again",
        fix="wait for the flag before setting it again, or use another event id",
        sanitizer=_UNPAIRED,
    ),
    "AI-SYNC-005": Rule(
        check="flags",
        rule="the counter of a cross-core flag holds 15 sets",
        fix="let the consumer return a credit flag, and wait for it before the next set",
    ),
    "AI-SYNC-006": Rule(
        check="flags",
        severity="warning",
        rule="a cross-core flag that is set again before its wait is documented as counted in one "
        "place and as lost in another",
        fix="let the consumer return a credit flag, and wait for it before the next set",
    ),
    "AI-SYNC-007": Rule(
        check="flags",
        severity="error or warning",
        rule="the event ids of flags within a core are 0 to 7; the compiler accepts up to 15",
        fix="use an event id from 0 to 7",
    ),
    "AI-SYNC-008": Rule(
        check="flags",
        rule="blocks that wait for each other must all run at the same time",
        fix="launch at most as many blocks as there are cores, and loop over the work",
    ),
    "AI-SYNC-009": Rule(
        check="flags",
        rule="on target ascendc T.sync_all() waits for the cores of both types",
        fix="call T.sync_all() as often in the scope of the other core type",
    ),
    "AI-SYNC-010": Rule(
        check="flags",
        severity="warning",
        rule="an operation that uses event ids itself needs them free",
        fix="use event ids from 2 on for flags that stay set across this operation",
    ),
    "AI-SYNC-011": Rule(
        check="redundancy",
        severity="hint",
        rule="a flag or barrier costs time on the device; it is of use when something that one "
        "pipe did is touched by another pipe afterwards",
        fix="take it out, unless other shapes or values make it needed",
    ),
    "AI-SYNC-012": Rule(
        check="settings",
        severity="warning",
        rule="automatic synchronisation orders the pipes of a core by itself",
        fix="take the flags out, or turn tl.ascend_auto_sync off",
    ),
    "AI-SYNC-020": Rule(
        check="settings",
        severity="warning or hint",
        rule="automatic combine assigns a flag or barrier to the core of the operation before it",
        fix="move it behind an operation of the core that it is meant for",
    ),
    "AI-SYNC-021": Rule(
        check="settings",
        rule="the k-th access of a workspace by the cube is paired with the k-th by the vector "
        "cores, and one of the two must be a write",
        fix="access each workspace equally often on both sides, in the same order",
    ),
    "AI-SYNC-022": Rule(
        check="settings",
        rule="automatic cross-core flags need constant trip counts",
        fix="make the loop's extent a Python constant",
    ),
    "AI-SYNC-023": Rule(
        check="settings",
        severity="warning",
        rule="automatic cross-core flags need an access of the cube program for every access of "
        "the vector program; one without still gets its half of a flag",
        fix="access it from the other core type, or take 'workspace' out of its name",
    ),
    "AI-SYNC-024": Rule(
        check="settings",
        severity="warning",
        rule="the compiler numbers its cross-core flags without looking at those set by hand",
        fix="use a higher id for the flag set by hand",
    ),
    "AI-SYNC-025": Rule(
        check="settings",
        severity="warning",
        rule="automatic cross-core flags are inserted by a part of the automatic combine",
        fix="turn on tl.ascend_auto_cv_combine as well, or set the cross-core flags by hand",
    ),
}
