"""Statistics of samples: what a few samples tell, and what they do not."""

from __future__ import annotations

import numpy as np
import pytest

from kernels_npu.errors import UsageError
from profiling.summary import samples_needed, summarise


def test_quantiles_only_where_five_samples_lie_beyond():
    assert [samples_needed(q) for q in (0.9, 0.95, 0.99)] == [50, 100, 500]
    values = np.random.default_rng(0).lognormal(size=600)
    found = summarise(values, "us")
    assert found.quantiles[0.99] == pytest.approx(np.quantile(values, 0.99))
    assert found.deviation == pytest.approx(values.std(ddof=1))
    assert summarise(values[:499], "us").quantiles[0.99] is None


@pytest.mark.parametrize("samples", [[], [1.0, float("nan")], [float("inf")]])
def test_samples_that_tell_nothing(samples):
    with pytest.raises(UsageError, match="AI-BENCH-001"):
        summarise(samples, "us")
