"""The vLLM of this environment and its platform, by their metadata and files; not imported."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ascend_infer.vllm_plugin import pins
from ascend_infer.vllm_plugin.pins import Difference, differences
from ascend_infer.vllm_plugin.releases import counts_as


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

    @functools.cached_property
    def release(self) -> str | None:
        """The pinned release that the host counts as (`releases.counts_as`)."""
        if self.package is None:
            return None
        return counts_as(self.version, pins.pinned()[self.kind.name], self._hashes)

    def _hashes(self) -> dict[str, str | None]:
        assert self.package is not None
        depends = pins.DEPENDS[self.kind.name].values()
        whats = {what for names in depends for what in names}
        return {what: pins.text_hash(self.package, what) for what in whats}

    @property
    def label(self) -> str:
        """Name and version, and what it counts as where that is another."""
        if self.package is None:
            return f"{self.kind.name}, not installed"
        named = f"{self.kind.name} {self.version or 'without a version'}"
        same = self.release in (None, self.version)
        return named if same else f"{named} (counts as {self.release})"

    def refusal(self, op: str) -> str | None:
        """Why `op` is not replaced in this host; None where it is."""
        supported = self.kind.supported
        if self.package is None:
            return f"{self.kind.name} is not installed"
        if self.release is None:
            return f"{self.label} is none of {', '.join(supported)}"
        wanted = supported[self.release]
        if wanted not in ("", self.vllm.partition("+")[0]):
            return f"vLLM {self.vllm or 'without a version'}; {self.label} is for {wanted}"
        found = self.differences(op)
        if not found:
            return None
        texts = "; ".join(map(str, found))
        return texts if self.release == self.version else f"{self.label}: {texts}"

    def differences(self, op: str) -> list[Difference]:
        """What of the host's text `op` does not know."""
        if self.package is None or self.release is None:
            return []
        return differences(self.package, self.kind.name, self.release, op)


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
