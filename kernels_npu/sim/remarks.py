"""What the front end says about a source that it accepts."""

from __future__ import annotations

from dataclasses import dataclass

from kernels_npu.errors import SourceLocation


@dataclass(frozen=True, kw_only=True)
class Remark:
    """One remark about the statement at `loc`; `code` is a key of `error_codes.CODES`."""

    code: str
    severity: str
    message: str
    loc: SourceLocation
