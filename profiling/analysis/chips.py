"""Which chip a profile is of."""

from __future__ import annotations

from kernels_npu.errors import UsageError
from profiling.devices import Chip, get_chip
from profiling.records.profile import Profile

#: The manifest's setting that names it.
_SETTING = "soc"


def chip_of(profile: Profile) -> Chip | None:
    """The chip that the profile's manifests name; None when they name none, or several.

    Profilers' own files never do.
    """
    names = {m.settings[_SETTING] for m in profile.manifests if m.settings.get(_SETTING)}
    if len(names) != 1:
        return None
    try:
        return get_chip(names.pop())
    except UsageError:
        # A manifest of a later version, or one that was written by hand.
        return None
