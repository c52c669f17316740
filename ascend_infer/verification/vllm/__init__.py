"""Whether stock vLLM decodes with our operators what it decodes without them."""

from __future__ import annotations
