"""`ascend-infer verify`: operators, the decode block or a whole model, as lists of results."""

from __future__ import annotations
