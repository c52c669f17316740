"""Vector clocks: what is known of the pipes of one core, and of all cores.

Clocks are shared between those who know the same, so they are never changed.
"""

from __future__ import annotations

#: Per pipe of a core, in eight places: up to which epoch everything has happened.
Clock = list[int]
#: A clock per core.
Clocks = list[Clock]


def joined(a: Clock, b: Clock) -> Clock:
    """What is known to one who knows `a` and `b`: one of them, where it says all.

    Written out, because every flag asks: a loop takes four times as long.
    """
    a0, a1, a2, a3, a4, a5, a6, _ = a
    b0, b1, b2, b3, b4, b5, b6, _ = b
    if b0 >= a0 and b1 >= a1 and b2 >= a2 and b3 >= a3 and b4 >= a4 and b5 >= a5 and b6 >= a6:
        return b
    return [
        a0 if a0 > b0 else b0,
        a1 if a1 > b1 else b1,
        a2 if a2 > b2 else b2,
        a3 if a3 > b3 else b3,
        a4 if a4 > b4 else b4,
        a5 if a5 > b5 else b5,
        a6 if a6 > b6 else b6,
        0,
    ]


def all_joined(a: Clocks, b: Clocks) -> Clocks:
    """`joined`, core by core."""
    return [x if x is y else joined(x, y) for x, y in zip(a, b)]
