"""`ascend-infer verify`: operators, the decode block, or a whole model, each as a list of results."""

from __future__ import annotations
