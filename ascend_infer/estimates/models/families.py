"""The architectures that estimates cover, by model type.

Read in the model files of the transformers library, whose parameter counts the tests compare with.
A model type that is not here is reported as not covered, since a guess would be a wrong count.
"""

from __future__ import annotations

from ascend_infer.estimates.models.families_dense import DENSE
from ascend_infer.estimates.models.families_moe import MOE
from ascend_infer.estimates.models.family import Family

FAMILIES: dict[str, Family] = {name: family for family in DENSE + MOE for name in family.names}
