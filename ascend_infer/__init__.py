"""The toolkit a user calls: command line, model, paged KV cache, engine."""

from __future__ import annotations

__version__ = "0.1.0"
