"""Pin the text of another release of a host: ascend_infer/vllm_plugin/pinned_hashes.json.

    python scripts/vllm_pins.py vllm-ascend==0.23.0.post1=FOLDER ...

FOLDER holds an unpacked wheel or source distribution of that release. Releases that are not named
keep their hashes. Read what has changed before you pin it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ascend_infer.vllm_plugin.host import ASCEND, CPU, Kind
from ascend_infer.vllm_plugin.pins import DEPENDS, PINNED, pinned, text_hash

KINDS = {kind.name: kind for kind in (ASCEND, CPU)}


def hashes_of(kind: Kind, folder: Path) -> dict[str, str]:
    """The hash of all that any operator depends on; ends the program where something is missing."""
    found = {}
    for what in sorted({what for depends in DEPENDS[kind.name].values() for what in depends}):
        digest = text_hash(folder / kind.package, what)
        if digest is None:
            raise SystemExit(f"{folder} has no {what}")
        found[what] = digest
    return found


def main(arguments: list[str]) -> None:
    """Write the hashes of the releases that are named."""
    pins = {host: dict(releases) for host, releases in pinned().items()}
    for argument in arguments:
        host, _, rest = argument.partition("==")
        version, _, folder = rest.partition("=")
        if host not in KINDS:
            raise SystemExit(f"{argument}: the host is one of {', '.join(KINDS)}")
        pins.setdefault(host, {})[version] = hashes_of(KINDS[host], Path(folder))
    PINNED.write_text(json.dumps(pins, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
