"""Every operation, drawn at random, on tables that lancelet and pylance change in turn.

Beside every line of versions (a table, its branches, its clones) stands a plain dict of rows. After each step both read
that dict out of the line, row for row and id for id the same; a version drawn from its past still reads as it did; and
both find the line sound.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import lance
import pyarrow as pa
import pytest
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

import lancelet
import lines
from drawing import examples
from lancelet.testing import assert_identical

Row = dict[str, Any]
Rows = dict[int, Row]
Fields = dict[str, pa.Field]

START = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("i", pa.int32()),
        ("s", pa.string()),
        ("v", pa.list_(pa.float32(), 2)),
        ("p", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("l", pa.list_(pa.int16())),
    ]
)
CASTS = {
    pa.int32(): pa.int64(),
    pa.int64(): pa.int32(),
    pa.string(): pa.large_string(),
    pa.large_string(): pa.string(),
}
LINEAGE = ["_row_created_at_version", "_row_last_updated_at_version"]
MAX_LINES = 4


def start() -> Fields:
    return {field.name: field for field in START}


def value(column: pa.Field, key: int, salt: int) -> Any:
    """What a column holds for a key: now and then nothing."""
    drawn, kind = (key * 31 + salt * 17) % 97, column.type
    if drawn % 7 == 0 and column.nullable:
        return None
    if pa.types.is_integer(kind):
        return drawn
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return f"text {drawn % 11}"
    if pa.types.is_fixed_size_list(kind):
        return [float(drawn), float(key)]
    if pa.types.is_struct(kind):
        return {"x": None if drawn % 5 == 0 else drawn, "y": f"y{drawn % 3}"}
    return list(range(drawn % 4))


@dataclass
class Line(lines.Line):
    """One line of versions, and what it should hold."""

    fields: Fields = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)
    past: dict[int, tuple[Fields, Rows]] = field(default_factory=dict)
    """Versions that can still be read, and what they hold."""
    tags: dict[str, int] = field(default_factory=dict)
    shared: bool = False
    """Whether a clone elsewhere depends on its files."""
    indexed: bool = False

    def table(self, rows: Rows, names: list[str] | None = None) -> pa.Table:
        fields = [self.fields[name] for name in names or self.fields]
        columns = [pa.array([row[field.name] for row in rows.values()], field.type) for field in fields]
        return pa.table(columns, schema=pa.schema(fields))


class Operations(lines.Lines[Line]):
    """Rules are operations; each draws who does it, and on which line."""

    engines, picks = lines.ENGINES, lines.PICKS
    fragment_rows = (10, 25, 1000)
    salts = st.integers(0, 20)

    @initialize(
        engine=engines,
        version=st.sampled_from(["2.1", "2.2"]),
        stable=st.booleans(),
        rows=st.integers(1, 40),
        seed=st.integers(0, 1000),
    )
    def create(self, engine: Any, version: str, stable: bool, rows: int, seed: int) -> None:
        self.stable = stable
        line = Line(self.begin(seed), fields=start())
        line.rows = self._new(line, rows, 0)
        engine.write_dataset(
            line.table(line.rows),
            line.uri,
            data_storage_version=version,
            enable_stable_row_ids=stable,
            max_rows_per_file=15,
        )
        self.lines = [line]
        self._check(line)

    def _new(self, line: Line, count: int, salt: int) -> Rows:
        keys = range(self.next, self.next + count)
        self.next += count
        return {key: self._row(line, key, salt) for key in keys}

    def _row(self, line: Line, key: int, salt: int) -> Row:
        return {name: key if name == "k" else value(column, key, salt) for name, column in line.fields.items()}

    def _begin(self, source: Line, uri: str, branch: str | None, *, borrows: bool) -> None:
        rows = copy.deepcopy(source.rows)
        self.lines.append(Line(uri, branch, borrows, dict(source.fields), rows, indexed=source.indexed))
        self._check(self.lines[-1])

    def _column(self, line: Line, pick: int, fits: Callable[[pa.Field], bool]) -> str | None:
        names = [name for name, column in line.fields.items() if name != "k" and fits(column)]
        return names[pick % len(names)] if names else None

    # Rows

    @rule(engine=engines, pick=picks, count=st.integers(0, 30), salt=salts, left_out=st.booleans())
    def append(self, engine: Any, pick: int, count: int, salt: int, left_out: bool) -> None:
        line = self._line(pick)
        added = self._new(line, count, salt)
        missing = self._column(line, pick, lambda column: column.nullable) if left_out else None
        names = [name for name in line.fields if name != missing]
        if missing is not None:
            for row in added.values():
                row[missing] = None
        engine.write_dataset(line.table(added, names), line.open(engine), mode="append", max_rows_per_file=13)
        line.rows.update(added)
        self._check(line)

    @rule(engine=engines, pick=picks, count=st.integers(0, 30), salt=salts)
    def overwrite(self, engine: Any, pick: int, count: int, salt: int) -> None:
        line = self._line(pick)
        line.fields = start()
        line.rows = self._new(line, count, salt)
        engine.write_dataset(line.table(line.rows), line.open(engine), mode="overwrite", max_rows_per_file=12)
        self._check(line)

    @rule(engine=engines, pick=picks, modulus=st.integers(2, 7), rest=st.integers(0, 6))
    def delete(self, engine: Any, pick: int, modulus: int, rest: int) -> None:
        line = self._line(pick)
        gone = [key for key in line.rows if key % modulus == rest]
        assert line.open(engine).delete(f"k % {modulus} = {rest}") == {"num_deleted_rows": len(gone)}
        for key in gone:
            del line.rows[key]
        self._check(line)

    @rule(engine=engines, pick=picks, modulus=st.integers(1, 7), rest=st.integers(0, 6))
    def update(self, engine: Any, pick: int, modulus: int, rest: int) -> None:
        line = self._line(pick)
        name = self._column(line, pick, lambda column: column.type in CASTS)
        if name is None:
            return
        number = pa.types.is_integer(line.fields[name].type)
        result = line.open(engine).update({name: f"{name} + 1" if number else "'new'"}, where=f"k % {modulus} = {rest}")
        chosen = [row for key, row in line.rows.items() if key % modulus == rest]
        assert result == {"num_rows_updated": len(chosen)}
        for row in chosen:
            row[name] = "new" if not number else None if row[name] is None else row[name] + 1
        self._check(line)

    @rule(
        engine=engines,
        pick=picks,
        old=st.integers(0, 12),
        new=st.integers(0, 12),
        salt=salts,
        clauses=st.sampled_from(["upsert", "insert", "update", "part", "replace", "prune"]),
    )
    def merge(self, engine: Any, pick: int, old: int, new: int, salt: int, clauses: str) -> None:
        line = self._line(pick)
        keys = self.chance.sample(sorted(line.rows), min(old, len(line.rows)))
        source = {key: self._row(line, key, salt) for key in keys} | self._new(line, new, salt)
        names = list(line.fields)
        if clauses == "part":
            names = ["k", names[1 + pick % (len(names) - 1)]]
        builder = line.open(engine).merge_insert("k")
        if clauses != "insert":
            builder.when_matched_update_all()
        if clauses not in ("update", "part"):
            builder.when_not_matched_insert_all()
        if clauses in ("replace", "prune"):
            builder.when_not_matched_by_source_delete(None if clauses == "replace" else "k % 3 = 0")
        result = builder.execute(line.table(source, names))
        updated = [key for key in keys if clauses != "insert"]
        inserted = [key for key in source if key not in line.rows and clauses not in ("update", "part")]
        dropped = [
            key
            for key in line.rows
            if key not in source and (clauses == "replace" or (clauses == "prune" and key % 3 == 0))
        ]
        assert result["num_updated_rows"] == len(updated)
        assert result["num_inserted_rows"] == len(inserted)
        assert result["num_deleted_rows"] == len(dropped)
        for key in updated:
            line.rows[key].update({name: source[key][name] for name in names})
        line.rows.update({key: source[key] for key in inserted})
        for key in dropped:
            del line.rows[key]
        self._check(line)

    @rule(engine=engines, pick=picks)
    @precondition(lambda self: self.next > 150)
    def truncate(self, engine: Any, pick: int) -> None:
        line = self._line(pick)
        line.open(engine).truncate_table()
        line.rows = {}
        self._check(line)

    # Columns

    @rule(engine=engines, pick=picks, computed=st.booleans())
    def add_column(self, engine: Any, pick: int, computed: bool) -> None:
        line = self._line(pick)
        if len(line.fields) > 9:
            return
        name = self._name("c")
        if computed:
            line.open(engine).add_columns({name: "k * 2 + 1"})
            line.fields[name] = pa.field(name, pa.int64(), nullable=False)
        else:
            line.open(engine).add_columns(pa.field(name, pa.string()))
            line.fields[name] = pa.field(name, pa.string())
        for key, row in line.rows.items():
            row[name] = key * 2 + 1 if computed else None
        self._check(line)

    @rule(engine=engines, pick=picks)
    def drop_column(self, engine: Any, pick: int) -> None:
        line = self._line(pick)
        name = self._column(line, pick, lambda column: True)
        if name is None or len(line.fields) < 4:
            return
        line.open(engine).drop_columns([name])
        del line.fields[name]
        for row in line.rows.values():
            del row[name]
        self._check(line)

    @rule(engine=engines, pick=picks)
    def rename_column(self, engine: Any, pick: int) -> None:
        line = self._line(pick)
        name = self._column(line, pick, lambda column: True)
        if name is None:
            return
        new = self._name("n")
        line.open(engine).alter_columns({"path": name, "name": new})
        renamed = [column.with_name(new) if column.name == name else column for column in line.fields.values()]
        line.fields = {column.name: column for column in renamed}
        line.rows = {
            key: {new if column == name else column: held for column, held in row.items()}
            for key, row in line.rows.items()
        }
        self._check(line)

    @rule(engine=engines, pick=picks)
    def cast_column(self, engine: Any, pick: int) -> None:
        line = self._line(pick)
        name = self._column(line, pick, lambda column: column.type in CASTS)
        if name is None:
            return
        kind = CASTS[line.fields[name].type]
        if any(name in index.field_names for index in line.open(lance).describe_indices()):
            with pytest.raises(OSError, match="Cannot cast"):
                line.open(engine).alter_columns({"path": name, "data_type": kind})
            return
        line.open(engine).alter_columns({"path": name, "data_type": kind})
        line.fields[name] = line.fields[name].with_type(kind)
        self._check(line)

    # Files and indices

    @rule(engine=engines, pick=picks, kind=st.sampled_from(["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER", "NGRAM"]))
    def index(self, engine: Any, pick: int, kind: str) -> None:
        """One builds it; what both do afterwards must keep its answers right."""
        line = self._line(pick)
        if not line.rows:
            return
        name = self._column(line, pick, lambda column: _can_have(kind, column)) if pick % 2 or kind == "NGRAM" else "k"
        if name is not None:
            line.open(engine).create_scalar_index(name, kind, replace=True)
            line.indexed = True
            self._check(line)

    @rule(engine=engines, pick=picks)
    def drop_index(self, engine: Any, pick: int) -> None:
        line = self._line(pick)
        names = [index.name for index in line.open(lance).describe_indices() if not index.name.startswith("__")]
        if names:
            line.open(engine).drop_index(names[pick % len(names)])
            self._check(line)

    @rule(engine=engines, pick=picks, keep=st.integers(1, 4))
    def cleanup(self, engine: Any, pick: int, keep: int) -> None:
        line = self._line(pick)
        if line.branch is not None or line.shared:
            return
        engine.dataset(line.uri).cleanup_old_versions(
            timedelta(0), retain_versions=keep, error_if_tagged_old_versions=False
        )
        for other in self.lines:
            if other.uri == line.uri:
                left = {entry["version"] for entry in other.open(lance).versions()}
                assert left >= {max(other.past), *other.tags.values()}
                other.past = {version: held for version, held in other.past.items() if version in left}
        kept = {*sorted(line.past)[-keep:], *line.tags.values()}
        assert kept <= set(line.past)
        self._check(line)

    # Versions

    @rule(engine=engines, pick=picks)
    def tag(self, engine: Any, pick: int) -> None:
        line = self._line(pick)
        name = self._name("tag")
        version = max(line.past)
        engine.dataset(line.uri).tags.create(name, version if line.branch is None else (line.branch, version))
        line.tags[name] = version
        for reader in (lancelet, lance):
            found = reader.dataset(line.uri).checkout_version(name)
            assert (found.version, found.count_rows()) == (version, len(line.rows))

    @rule(engine=engines, pick=picks)
    def untag(self, engine: Any, pick: int) -> None:
        line = self._line(pick)
        if line.tags:
            name = min(line.tags)
            engine.dataset(line.uri).tags.delete(name)
            del line.tags[name]
            assert {*lancelet.dataset(line.uri).tags.list()} == {*lance.dataset(line.uri).tags.list()}

    @rule(engine=engines, pick=picks)
    def restore(self, engine: Any, pick: int) -> None:
        line = self._line(pick)
        version = sorted(line.past)[pick % len(line.past)]
        line.open(engine, version).restore()
        fields, rows = line.past[version]
        line.fields, line.rows = dict(fields), copy.deepcopy(rows)
        self._check(line)

    @rule(engine=engines, pick=picks)
    @precondition(lambda self: len(self.lines) < MAX_LINES)
    def make_branch(self, engine: Any, pick: int) -> None:
        line = self._line(pick)
        name = self._name("branch")
        line.open(engine).create_branch(name)
        self._begin(line, line.uri, name, borrows=line.indexed)

    @rule(engine=engines, pick=picks, deep=st.booleans())
    @precondition(lambda self: len(self.lines) < MAX_LINES)
    def clone(self, engine: Any, pick: int, deep: bool) -> None:
        line = self._line(pick)
        uri = f"{self.folder.name}/{self._name('clone')}"
        version = max(line.past)
        make = line.open(engine)
        (make.deep_clone if deep else make.shallow_clone)(uri, version)
        for other in self.lines:
            other.shared |= other.uri == line.uri and not deep
        self._begin(line, uri, None, borrows=line.indexed and not deep)

    @rule(engine=engines, pick=picks, salt=salts)
    def configure(self, engine: Any, pick: int, salt: int) -> None:
        line = self._line(pick)
        line.open(engine).update_config({"own.salt": str(salt)})
        assert line.open(lancelet).config() == line.open(lance).config()
        self._check(line)

    # What always holds

    def _check(self, line: Line) -> None:
        ours, theirs = line.open(lancelet), line.open(lance)
        assert ours.version == theirs.version
        line.past[ours.version] = (dict(line.fields), copy.deepcopy(line.rows))
        self._reads(ours, theirs, line.fields, line.rows)
        self._finds(line, ours, theirs)
        theirs.validate()
        ours.validate()
        report = ours.verify()
        assert report.ok, report
        older = self._line(self.chance.randrange(100))
        version = self.chance.choice(sorted(older.past))
        self._reads(older.open(lancelet, version), older.open(lance, version), *older.past[version])

    def _finds(self, line: Line, ours: Any, theirs: Any) -> None:
        """Filters, which pylance answers with indices where it has them."""
        low = self.chance.randrange(max(self.next, 1))
        asked = {f"k >= {low} and k < {low + 10}": {key for key in line.rows if low <= key < low + 10}}
        name = self._column(line, low, lambda column: column.type in CASTS)
        if name is not None:
            default = 7 if pa.types.is_integer(line.fields[name].type) else "text 7"
            sought = next((row[name] for row in line.rows.values() if row[name] is not None), default)
            text = f"'{sought}'" if isinstance(sought, str) else sought
            asked[f"{name} = {text}"] = {key for key, row in line.rows.items() if row[name] == sought}
            asked[f"{name} is null"] = {key for key, row in line.rows.items() if row[name] is None}
        for condition, keys in asked.items():
            for dataset in (ours, theirs):
                found = dataset.to_table(["k"], filter=condition)["k"].to_pylist()
                assert sorted(found) == sorted(keys), condition

    def _reads(self, ours: Any, theirs: Any, fields: Fields, rows: Rows) -> None:
        found = ours.to_table(with_row_id=True, with_row_address=True)
        assert_identical(found, theirs.to_table(with_row_id=True, with_row_address=True))
        if self.stable:
            assert_identical(ours.to_table(LINEAGE), theirs.to_table(LINEAGE))
        assert list(ours.schema) == list(theirs.schema) == list(fields.values())
        ids = found["_rowid"].to_pylist()
        assert len(set(ids)) == len(ids)
        read = {row.pop("k"): row for row in found.drop(["_rowid", "_rowaddr"]).to_pylist()}
        assert len(read) == len(found)
        assert read == {key: {n: held for n, held in row.items() if n != "k"} for key, row in rows.items()}
        assert ours.count_rows() == theirs.count_rows() == len(rows)


def _can_have(kind: str, column: pa.Field) -> bool:
    if kind == "NGRAM":
        return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return column.type in CASTS


def test_operations() -> None:
    run_state_machine_as_test(Operations, settings=lines.profile(examples(15), 12))


@pytest.mark.soak
def test_many_operations() -> None:
    run_state_machine_as_test(Operations, settings=lines.profile(examples(8), 40))


@pytest.mark.parametrize("engine", [lancelet, lance], ids=["ours", "theirs"])
def test_an_index_without_files_is_sound(tmp_path: Path, engine: Any) -> None:
    """Where rows went in a compaction is told in the manifest itself as long as it is little."""
    dataset = lance.write_dataset(pa.table({"k": range(40)}), tmp_path, max_rows_per_file=15)
    dataset.create_scalar_index("k", "BTREE")
    engine.dataset(tmp_path).optimize.compact_files(defer_index_remap=True)
    report = lancelet.dataset(tmp_path).verify()
    assert report.ok, report
