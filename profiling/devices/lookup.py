"""Finding a chip by the names that people use."""

from __future__ import annotations

import difflib
import re

from kernels_npu.errors import UsageError
from kernels_npu.sim.soc import get_soc
from profiling.devices import ascend, nvidia
from profiling.devices.chip import Chip

CHIPS: dict[str, Chip] = {chip.name: chip for chip in (*ascend.chips(), *nvidia.chips())}

#: Names beside those that the simulator knows, such as A2 or 910C; a family's first product.
_ALIASES = {
    "310p": "Ascend310P3",
    "310b": "Ascend310B1",
    "310": "Ascend310B1",
    "350": "Ascend350_355e",
    "910": "Ascend910A",
    "h100sxm": "H100",
    "h100sxm5": "H100",
    "h200sxm": "H200",
}


def _key(name: str) -> str:
    text = re.sub(r"[^a-z0-9]", "", name.lower())
    return re.sub(r"^(huawei|nvidia)?(ascend)?", "", text)


_BY_KEY = {_key(name): name for name in CHIPS} | _ALIASES


def get_chip(name: str) -> Chip:
    """The chip called `name`: a SoC version, `910B3`, a family (`910C`, `950`), `A2`, `H100`, ...

    Case, blanks, `-` and `_` do not matter.

    Raises:
        UsageError: AI-DEV-010 for a name that no chip answers to, with those that are near.
    """
    found = _BY_KEY.get(_key(name))
    if found is None:
        try:
            found = get_soc(name).name
        except UsageError:
            raise _unknown(name) from None
    return CHIPS[found]


def _unknown(name: str) -> UsageError:
    near = difflib.get_close_matches(_key(name), _BY_KEY, n=5, cutoff=0.5)
    likely = [_BY_KEY[key] for key in near] or ["Ascend910B1", "Ascend910_9391", "H100"]
    return UsageError(
        "AI-DEV-010",
        f"unknown chip {name[:80]!r}",
        rule=f"{len(CHIPS)} chips are in the table of devices, with their families",
        fix="choose one, for example " + ", ".join(dict.fromkeys(likely)),
    )
