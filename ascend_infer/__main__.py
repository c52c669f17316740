"""`python -m ascend_infer` is the `ascend-infer` command."""

from __future__ import annotations

import sys

from ascend_infer.cli import main

if __name__ == "__main__":
    sys.exit(main())
