"""Rotary position embedding: frequencies with their scaling, and the cos/sin cache kernels read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ascend_infer.model.fields import Fields
from kernels_npu.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    import torch

#: Names under which configurations say "no scaling".
_UNSCALED = ("default", "none")


@dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """How the base frequencies are changed for long contexts.

    kind: `default` (unchanged), `linear` (divided by `factor`), `llama3` (low frequencies divided
    by `factor`, with a smooth band between) or `factors` (divided by one stored number per
    frequency, which is how GGUF files carry the `llama3` kind).
    """

    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 0
    factors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind == "llama3" and self.high_freq_factor <= self.low_freq_factor:
            raise UsageError(
                "AI-MODEL-002",
                f"RoPE scaling: high_freq_factor {self.high_freq_factor} is not above "
                f"low_freq_factor {self.low_freq_factor}",
                rule="the band between both wavelengths has to have a width",
                fix="take rope_scaling from the model's original config.json",
            )

    @classmethod
    def from_hf(cls, values: Mapping[str, Any] | None, origin: str) -> RopeScaling:
        """Read `rope_scaling` (or `rope_parameters`) of a `config.json`; None means unscaled.

        Raises:
            UnsupportedError: AI-MODEL-004 for kinds other than default, linear and llama3.
            UsageError: AI-MODEL-001/002 for missing or absurd parameters.
        """
        if values is None:
            return cls()
        kind = values.get("rope_type", values.get("type", "default"))
        fields = Fields(values=values, origin=f"{origin}: rope_scaling")
        if kind in _UNSCALED:
            return cls()
        if kind == "linear":
            return cls(kind="linear", factor=fields.positive_float("factor"))
        if kind == "llama3":
            return cls(
                kind="llama3",
                factor=fields.positive_float("factor"),
                low_freq_factor=fields.positive_float("low_freq_factor"),
                high_freq_factor=fields.positive_float("high_freq_factor"),
                original_max_position=fields.positive_int("original_max_position_embeddings"),
            )
        if kind == "factors":
            return cls(kind="factors", factors=_stored_factors(fields))
        raise UnsupportedError(
            "AI-MODEL-004",
            f"{origin}: RoPE scaling of kind {kind!r}",
            rule="RoPE scaling is computed exactly for: default, linear, llama3",
            fix="use a model with one of these kinds, or remove rope_scaling if your context stays "
            "within the length the model was trained on",
        )


def _stored_factors(fields: Fields) -> tuple[float, ...]:
    """The divisors that a GGUF file stores; `config.json` files have no such kind."""
    values = fields.get("factors")
    if not isinstance(values, (list, tuple)):
        raise fields.missing("factors")
    if not all(isinstance(v, (int, float)) and math.isfinite(v) and v > 0 for v in values):
        raise fields.absurd("factors", "finite numbers above zero")
    return tuple(float(v) for v in values)


def inverse_frequencies(rotary_dim: int, theta: float, scaling: RopeScaling) -> torch.Tensor:
    """Angle per position of each rotated pair: float32 `[rotary_dim / 2]`."""
    import torch

    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.int64).float() / rotary_dim
    base = 1.0 / (theta**exponents)
    if scaling.kind == "linear":
        return base / scaling.factor
    if scaling.kind == "factors":
        return base / torch.tensor(scaling.factors, dtype=torch.float32)
    if scaling.kind != "llama3":
        return base
    low_wavelength = scaling.original_max_position / scaling.low_freq_factor
    high_wavelength = scaling.original_max_position / scaling.high_freq_factor
    wavelength = 2 * math.pi / base
    # 1 keeps a frequency, 0 divides it; in between the two are blended.
    keep = (scaling.original_max_position / wavelength - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    blended = (1 - keep) * base / scaling.factor + keep * base
    scaled = torch.where(wavelength > low_wavelength, base / scaling.factor, base)
    in_band = (wavelength <= low_wavelength) & (wavelength >= high_wavelength)
    return torch.where(in_band, blended, scaled)


def cos_sin_cache(
    max_position: int, rotary_dim: int, theta: float, scaling: RopeScaling, dtype: torch.dtype
) -> torch.Tensor:
    """`[max_position, rotary_dim]`: the first half of each row is cos, the second sin.

    Angles are computed in float32 and rounded to `dtype` once.
    """
    import torch

    positions = torch.arange(max_position, dtype=torch.float32)
    angles = torch.outer(positions, inverse_frequencies(rotary_dim, theta, scaling))
    return torch.cat((angles.cos(), angles.sin()), dim=-1).to(dtype)
