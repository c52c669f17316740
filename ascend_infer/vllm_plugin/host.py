"""The vLLM of this environment and its platform, by their metadata and files; not imported."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ascend_infer.vllm_plugin.pins import Difference, differences


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A host that the plugin knows.

    name: the distribution whose releases are pinned. package: the one it installs, below which the
    pinned files are. supported: its release -> the vLLM that it was made for, "" where it is the
    vLLM. hooks: the module that takes hold of it.
    """

    name: str
    package: str
    supported: Mapping[str, str]
    hooks: str


ASCEND = Kind(
    name="vllm-ascend",
    package="vllm_ascend",
    supported={"0.18.0": "0.18.0", "0.23.0": "0.23.0", "0.23.0.post1": "0.23.0"},
    hooks="ascend_infer.vllm_plugin.ascend_hooks",
)
#: vLLM built for its CPU platform; there our kernels run on the simulated NPU.
CPU = Kind(
    name="vllm-cpu",
    package="vllm",
    supported={"0.27.1": "", "0.32.0": ""},
    hooks="ascend_infer.vllm_plugin.cpu_hooks",
)


@dataclass(frozen=True, kw_only=True)
class Host:
    """Versions, "" where a distribution is missing; `package` is where the host's files are."""

    kind: Kind
    version: str
    vllm: str
    package: Path | None

    def refusal(self, op: str) -> str | None:
        """Why `op` is not replaced in this host; None where it is."""
        name, supported = self.kind.name, self.kind.supported
        if self.package is None:
            return f"{name} is not installed"
        if self.version not in supported:
            return f"{name} {self.version} is none of {', '.join(supported)}"
        if supported[self.version] not in ("", self.vllm.partition("+")[0]):
            return (
                f"vLLM {self.vllm or 'is missing'}; {name} {self.version} is for "
                f"{supported[self.version]}"
            )
        found = self.differences(op)
        return "; ".join(map(str, found)) if found else None

    def differences(self, op: str) -> list[Difference]:
        """What of the host's text `op` does not know."""
        if self.package is None or self.version not in self.kind.supported:
            return []
        return differences(self.package, self.kind.name, self.version, op)


@functools.cache
def installed() -> Host:
    """The host of this environment; where vllm-ascend is installed, it is the platform."""
    ascend = _package(ASCEND)
    kind = CPU if ascend is None and _version(CPU.name) else ASCEND
    version = _version(kind.name)
    return Host(
        kind=kind,
        version=version,
        vllm=version if kind is CPU else _version("vllm"),
        package=_package(kind),
    )


def _package(kind: Kind) -> Path | None:
    spec = importlib.util.find_spec(kind.package)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
