"""Metrics: their names, and vectors of length 1."""

from __future__ import annotations

import numpy as np
import pytest

from lancelet.errors import InvalidInput
from lancelet.index.vector.metric import Metric, metric_named, normalized


def test_metrics_go_by_pylances_names_in_any_case() -> None:
    assert [metric_named(name) for name in ("L2", "euclidean", "Cosine", "dot", "hamming")] == [
        Metric.L2,
        Metric.L2,
        Metric.COSINE,
        Metric.DOT,
        Metric.HAMMING,
    ]
    with pytest.raises(InvalidInput, match="there is no metric 'manhattan'; known are"):
        metric_named("manhattan")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_vectors_keep_their_type_when_their_length_becomes_one(dtype: type) -> None:
    found = normalized(np.array([[3, 4], [0, 0]], dtype))
    assert found.dtype == dtype
    assert found[0].tolist() == np.array([0.6, 0.8], dtype).tolist()
    assert np.isnan(found[1]).all()
