"""A configuration read with a family's names of keys, defaults and flags."""

from __future__ import annotations

from dataclasses import dataclass, field

from ascend_infer.estimates.models.family import Family, Flag
from ascend_infer.model.fields import Fields
from kernels_npu.errors import UnsupportedError

#: More layers than any decoder has; a larger number is a corrupt file.
_MOST_LAYERS = 10_000
#: Counts of routed experts; a dense family has none of them, or one expert.
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
#: What no family has: an encoder whose states every layer attends to, layers unlike the others.
_FLAGS = ("is_encoder_decoder",)
_LISTS = ("block_configs", "cross_attention_layers")


@dataclass(kw_only=True)
class Keys:
    """Typed access under the family's names; `used_defaults` collects what was not stated."""

    fields: Fields
    family: Family
    used_defaults: dict[str, int] = field(default_factory=dict)

    def integer(self, key: str, default: int | None = None) -> int:
        """A dimension or count from 1 on; the family's default before `default`.

        Raises:
            UsageError: AI-MODEL-001 (missing), AI-MODEL-002 (absurd).
        """
        name = self.family.renamed.get(key, key)
        if self.fields.get(name) is None and key in self.family.defaults:
            self.used_defaults[name] = self.family.defaults[key]
            return self.family.defaults[key]
        return self.fields.positive_int(name, default)

    def flag(self, flag: Flag | None, *, otherwise: bool = False) -> bool:
        """What a flag says; `otherwise` where the family has none."""
        if flag is None:
            return otherwise
        return flag if isinstance(flag, bool) else self.fields.boolean(flag.key, flag.default)

    def layers(self) -> int:
        """The number of decoder layers."""
        count = self.integer("num_hidden_layers")
        if count > _MOST_LAYERS:
            raise self.fields.absurd("num_hidden_layers", f"at most {_MOST_LAYERS:,} layers")
        return count

    def refuse(self) -> None:
        """Options that the family's row does not describe.

        Raises:
            UnsupportedError: AI-EST-004.
        """
        said = [key for key in (*self.family.refused, *_FLAGS) if self.fields.boolean(key, False)]
        said += [key for key in _LISTS if self.fields.get(key)]
        if self.family.experts is None:
            said += [key for key in _EXPERTS if self.fields.get(key) not in (None, 0, 1)]
        if said:
            raise self.not_covered(
                f"{said[0]} in a configuration of {self.fields.get('model_type')}",
                f"with {said[0]} the layers are built otherwise",
            )

    def not_covered(self, what: str, rule: str) -> UnsupportedError:
        """The error for a configuration whose layers are not described here."""
        return UnsupportedError(
            "AI-EST-004",
            f"{self.fields.origin}: {what}",
            rule=rule,
            fix="compute this part by hand; an estimate that ignores it would be wrong",
        )
