"""Deep checks of vector indices: codes that are not those of their vectors are found, and none that are."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType

import lance
import numpy as np
import pytest

import lancelet
from vector.samples import table_of, vectors

KINDS = {
    "IVF_FLAT": {},
    "IVF_SQ": {},
    "IVF_PQ": {"num_sub_vectors": 8},
    "IVF_PQ of 4 bits": {"num_sub_vectors": 8, "num_bits": 4},
    "IVF_RQ": {},
    "IVF_RQ of signs": {"num_bits": 1},
    "IVF_RQ by a matrix": {"num_bits": 3, "rotation_type": "matrix"},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_SQ": {"ef_construction": 30},
    "IVF_HNSW_PQ": {"num_sub_vectors": 8, "ef_construction": 30},
}
ROWS = 900
METRICS = ("l2", "cosine", "dot")
ALL = list(itertools.product(KINDS, METRICS, ("f32", "f16", "f64"), (lance, lancelet)))
# In turns: every kind, with some metric, type and library.
SOME = [ALL[at] for at in range(0, len(ALL), 13)]


def options_of(kind: str, metric: str) -> dict[str, object]:
    name, _, _ = kind.partition(" ")
    return {"column": "v", "index_type": name, "metric": metric, "num_partitions": 3, "sample_rate": 32, **KINDS[kind]}


def assert_clean(tmp_path: Path, kind: str, metric: str, dtype: str, library: ModuleType) -> None:
    uri = str(tmp_path / "t")
    library.write_dataset(table_of(vectors(dtype, ROWS)), uri).create_index(**options_of(kind, metric))
    assert not lancelet.dataset(uri).verify(deep=True).findings
    # Farther out than what the quantizer was trained by.
    library.write_dataset(table_of(vectors(dtype, 300, seed=7) * 3), uri, mode="append")
    library.dataset(uri).optimize.optimize_indices(num_indices_to_merge=1)
    assert not lancelet.dataset(uri).verify(deep=True).findings
    library.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    library.write_dataset(table_of(vectors(dtype, 100, seed=8)), uri, mode="append")
    library.dataset(uri).optimize.optimize_indices()
    assert not lancelet.dataset(uri).verify(deep=True).findings


@pytest.mark.parametrize(("kind", "metric", "dtype", "library"), SOME)
@pytest.mark.spread(0.5, each=False)
def test_healthy_indices_are_found_healthy(
    tmp_path: Path, kind: str, metric: str, dtype: str, library: ModuleType
) -> None:
    assert_clean(tmp_path, kind, metric, dtype, library)


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "metric", "dtype", "library"), ALL)
def test_all_healthy_indices_are_found_healthy(
    tmp_path: Path, kind: str, metric: str, dtype: str, library: ModuleType
) -> None:
    assert_clean(tmp_path, kind, metric, dtype, library)


@pytest.mark.parametrize(("kind", "metric"), list(zip(KINDS, itertools.cycle(METRICS), strict=False)))
def test_codes_of_other_vectors_are_found(tmp_path: Path, kind: str, metric: str) -> None:
    values = vectors("f32", ROWS)
    uri = str(tmp_path / "t")
    dataset = lancelet.write_dataset(table_of(values), uri)
    dataset.create_index(**options_of(kind, metric))
    # Five vectors change behind the index's back.
    others = values.copy()
    others[[1, 50, 51, 400, 899]] = values[[2, 60, 70, 401, 7]] * -1
    other = tmp_path / "other"
    lancelet.write_dataset(table_of(others), str(other))
    (data,), (victim,) = (other / "data").iterdir(), (tmp_path / "t" / "data").iterdir()
    assert data.stat().st_size == victim.stat().st_size
    data.replace(victim)
    found = [finding for finding in lancelet.dataset(uri).verify(deep=True).findings if "index" in str(finding)]
    assert len(found) == 1
    assert " 5 row(s): row 1 of fragment 0, row 50 of fragment 0" in str(found[0])
    assert "drop the index" in str(found[0])


def test_a_check_of_many_wrong_codes_looks_at_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lancelet.index.vector.segment import VectorSegment

    monkeypatch.setattr(VectorSegment, "checked_at_once", 20)
    values = vectors("f32", ROWS)
    uri = str(tmp_path / "t")
    dataset = lancelet.write_dataset(table_of(values), uri)
    dataset.create_index(**options_of("IVF_PQ", "l2"))
    lancelet.write_dataset(table_of(np.roll(values, 1, axis=0)), str(tmp_path / "other"))
    (data,), (victim,) = (tmp_path / "other" / "data").iterdir(), (tmp_path / "t" / "data").iterdir()
    data.replace(victim)
    (finding,) = lancelet.dataset(uri).verify(deep=True).findings
    assert "has codes of other vectors for" in str(finding)
