"""Verdicts and what they add up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ascend_infer.doctor.asking import Answer

#: `absent` is optional and not there; `warning` works, with a risk; `broken` does not work.
OK, ABSENT, WARNING, BROKEN = "ok", "absent", "warning", "broken"

#: Unless it is 0, `import torch` imports torch_npu.
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check. `verdict` is ok, absent, warning or broken; `advice` is what to do."""

    name: str
    verdict: str
    evidence: str
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All findings. `devices` are the values of `--device` that work here."""

    findings: tuple[Finding, ...]
    devices: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether a device works and nothing that is installed is broken."""
        return bool(self.devices) and all(f.verdict != BROKEN for f in self.findings)

    @property
    def summary(self) -> str:
        """One line for people."""
        lines = [f"usable devices: {', '.join(self.devices) or 'none'}"]
        for verdict in (BROKEN, WARNING):
            names = [f.name for f in self.findings if f.verdict == verdict]
            if names:
                lines.append(f"{verdict}: {', '.join(names)}")
        return "; ".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {
            "passed": self.passed,
            "devices": list(self.devices),
            "findings": [vars(finding) for finding in self.findings],
        }


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What the checks look at: the probes' answers by section, and the environment."""

    answers: Mapping[str, Answer]
    environment: Mapping[str, str]

    def values(self, section: str) -> Mapping[str, Any]:
        """What a section answered; empty when it failed."""
        return self.answers[section].values

    def failure(self, section: str) -> str:
        """Why a section has no answer; empty when it has one."""
        return self.answers[section].failure

    @property
    def npu_host(self) -> bool:
        """Whether the machine has an NPU that this user could mean to use."""
        devices = self.values("devices")
        return bool(devices.get("nodes") or devices.get("pci"))

    @property
    def torch_npu_installed(self) -> bool:
        """Whether torch_npu is there, usable or not."""
        return bool(self.values("versions").get("torch_npu")) or bool(
            self.values("torch_npu").get("installed")
        )

    @property
    def torch_npu_breaks_torch(self) -> bool:
        """Whether `import torch` fails because it loads a torch_npu that cannot be imported.

        Metadata without the package does that, too: torch finds torch_npu through it.
        """
        kept_out = self.environment.get(AUTOLOAD) == "0"
        usable = bool(self.values("torch_npu").get("installed"))
        return self.torch_npu_installed and not usable and not kept_out

    @property
    def devices(self) -> tuple[str, ...]:
        """The values of `--device` that work here."""
        usable = {
            "npu": self.values("torch_npu").get("available"),
            "sim": self.values("simulator").get("usable"),
            "cpu": not self.failure("torch") and not self.torch_npu_breaks_torch,
            "cuda": self.values("torch").get("cuda_available"),
        }
        return tuple(name for name, works in usable.items() if works)

    def grave(self) -> str:
        """The verdict for a defect of what only an NPU needs: broken where there is one."""
        return BROKEN if self.npu_host else WARNING
