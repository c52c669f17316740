"""The vLLM and vllm-ascend of this environment, by their metadata and files; not imported."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from ascend_infer.vllm_plugin.pins import Difference, differences

#: Releases of vllm-ascend whose text is pinned, and the vLLM that each was made for.
SUPPORTED = {"0.18.0": "0.18.0", "0.23.0": "0.23.0", "0.23.0.post1": "0.23.0"}


@dataclass(frozen=True, kw_only=True)
class Host:
    """Versions, "" where a package is missing; `package` is where vllm_ascend's files are."""

    vllm: str
    vllm_ascend: str
    package: Path | None

    def refusal(self, op: str) -> str | None:
        """Why `op` is not replaced in this host; None where it is."""
        if self.package is None:
            return "vllm-ascend is not installed"
        if self.vllm_ascend not in SUPPORTED:
            known = ", ".join(SUPPORTED)
            return f"vllm-ascend {self.vllm_ascend} is none of {known}"
        if self.vllm.partition("+")[0] != SUPPORTED[self.vllm_ascend]:
            return (
                f"vLLM {self.vllm or 'is missing'}; vllm-ascend {self.vllm_ascend} is for "
                f"{SUPPORTED[self.vllm_ascend]}"
            )
        found = self.differences(op)
        return "; ".join(map(str, found)) if found else None

    def differences(self, op: str) -> list[Difference]:
        """What of the host's text `op` does not know."""
        if self.package is None or self.vllm_ascend not in SUPPORTED:
            return []
        return differences(self.package, self.vllm_ascend, op)


@functools.cache
def installed() -> Host:
    """The host of this environment."""
    spec = importlib.util.find_spec("vllm_ascend")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Host(
        vllm=_version("vllm"),
        vllm_ascend=_version("vllm-ascend"),
        package=Path(places[0]) if places else None,
    )


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
