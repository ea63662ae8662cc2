"""Drawn histories: any column, any kind, changes by either engine in any order, drawn filters; always the rows of a scan."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from index.questions import KINDS, filters, table

ENGINES = {"ours": lancelet, "pylance": lance}
FILE_ROWS = 90
Dataset = Any
Change = Callable[[Dataset, Any, Path, str, str], object]


def in_parts(dataset: Dataset, engine: Any, where: Path, kind: str, column: str) -> None:
    ids = [fragment.fragment_id for fragment in dataset.get_fragments()]
    name = f"parts {len(dataset.describe_indices())}"
    parts = [
        dataset.create_index_uncommitted(column, kind, name, fragment_ids=some)
        for some in (ids[::2], ids[1::2])
        if some
    ]
    dataset.commit_existing_index_segments(name, column, parts)


def dropped(dataset: Dataset, engine: Any, where: Path, kind: str, column: str) -> None:
    for name in {index.name for index in dataset.describe_indices()} - {"__lance_frag_reuse"}:
        dataset.drop_index(name)
        return


def merged(dataset: Dataset, engine: Any, where: Path, kind: str, column: str) -> None:
    dataset.merge_insert("key").when_matched_update_all().when_not_matched_insert_all().execute(
        table([column]).slice(60, 50)
    )


CHANGES: dict[str, Change] = {
    "append": lambda d, engine, where, kind, column: engine.write_dataset(table([column], 70), where, mode="append"),
    "delete": lambda d, *_: d.delete("key % 7 = 3"),
    "delete some": lambda d, *_: d.delete("plain between 40 and 140"),
    "update": lambda d, *_: d.update({"plain": "plain + 1000"}, where="key % 5 = 1"),
    "merge": merged,
    "optimize": lambda d, *_: d.optimize.optimize_indices(),
    "extend": lambda d, *_: d.optimize.optimize_indices(num_indices_to_merge=0),
    "join": lambda d, *_: d.optimize.optimize_indices(num_indices_to_merge=9),
    "retrain": lambda d, *_: d.optimize.optimize_indices(retrain=True),
    "compact": lambda d, *_: d.optimize.compact_files(target_rows_per_fragment=200),
    "compact all": lambda d, *_: d.optimize.compact_files(target_rows_per_fragment=5000),
    "defer": lambda d, *_: d.optimize.compact_files(target_rows_per_fragment=300, defer_index_remap=True),
    "create": lambda d, engine, where, kind, column: d.create_scalar_index(column, kind),
    "untrained": lambda d, engine, where, kind, column: d.create_scalar_index(column, kind, "late", train=False),
    "parts": in_parts,
    "drop": dropped,
}
PAIRS = [(kind, column) for kind, columns in KINDS.items() for column in columns]


@st.composite
def nests(draw: st.DrawFn, column: str, depth: int = 2) -> str:
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from([*filters(column), "plain % 3 = 0", "_rowid % 2 = 0", "key > 200"]))
    parts = draw(st.lists(nests(column, depth=depth - 1), min_size=2, max_size=3))
    joined = draw(st.sampled_from([" and ", " or "])).join(f"({part})" for part in parts)
    return draw(st.sampled_from(["{}", "not ({})", "({}) is not true"])).format(joined)


def check(where: Path, texts: list[str]) -> None:
    ours, theirs = lancelet.dataset(where), lance.dataset(where)
    for text in texts:
        truth = ours.to_table(["key"], filter=text, use_scalar_index=False)["key"].to_pylist()
        assert ours.to_table(["key"], filter=text)["key"].to_pylist() == truth, text
        assert ours.count_rows(text) == len(truth), text
        plain = theirs.to_table(["key"], filter=text, use_scalar_index=False)["key"].to_pylist()
        if sorted(plain) == sorted(truth):
            asked = theirs.to_table(["key"], filter=text)["key"].to_pylist()
            assert sorted(asked) == sorted(truth), (text, "pylance")


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=examples(3), suppress_health_check=list(HealthCheck))
def test_drawn_histories(tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject) -> None:
    column = data.draw(st.sampled_from(KINDS[kind]))
    stable = data.draw(st.booleans())
    changes = sorted(CHANGES.keys() - ({"defer"} if stable else set()))
    where = tmp_path_factory.mktemp("drawn") / "t"
    lance.write_dataset(table([column]), where, max_rows_per_file=FILE_ROWS, enable_stable_row_ids=stable)
    first = data.draw(st.sampled_from(sorted(ENGINES)))
    ENGINES[first].dataset(where).create_scalar_index(column, kind)
    done = [f"{first}: create {kind} on {column}"]
    for _ in range(data.draw(st.integers(1, 7))):
        change, engine = data.draw(st.sampled_from(changes)), data.draw(st.sampled_from(sorted(ENGINES)))
        done.append(f"{engine}: {change}")
        note(str(done))
        module = ENGINES[engine]
        CHANGES[change](module.dataset(where), module, where, kind, column)
        check(where, data.draw(st.lists(nests(column), min_size=1, max_size=4)))
    shutil.rmtree(where)
