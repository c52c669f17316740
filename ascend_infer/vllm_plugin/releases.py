"""Which pinned release a host counts as: by its version where that names one, else by its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_BETWEEN_RELEASES = re.compile(r"\.?dev\d*$")


def counts_as(
    version: str,
    pinned: Mapping[str, Mapping[str, str]],
    read: Callable[[], Mapping[str, str | None]],
) -> str | None:
    """The release of `pinned` whose text a host of `version` must have; None for another release.

    A local part (`0.23.0+dirty`) leaves the release that it was added to. What was built between
    two releases (`0.23.1.dev3`), and a checkout without metadata (""), counts as the release whose
    text is nearest. read: the hashes of the host's text, by definition; pinned: oldest first.
    """
    public = version.partition("+")[0]
    if public in pinned:
        return public
    if public and not _BETWEEN_RELEASES.search(public):
        return None
    found = read()

    def differing(release: str) -> int:
        return sum(found.get(what) != digest for what, digest in pinned[release].items())

    # Of equally near ones the newest.
    return min(reversed(list(pinned)), key=differing, default=None)
