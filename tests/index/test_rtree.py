"""RTREE indices and the predicates of geometries: what pylance finds, on its files and on ours, and what brute force finds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader

import lancelet
from drawing import examples
from lancelet.errors import CorruptFile, InvalidInput, InvalidType, MissingPackage
from lancelet.index.geometry import boxes, shapes
from lancelet.index.scalar.hilbert import along_curve
from lancelet.indices import IndexConfig

shapely = pytest.importorskip("shapely", reason="geometries are computed by shapely, of the extra lancelet[geo]")

ROWS = 700
XY = pa.struct([pa.field("x", pa.float64(), False), pa.field("y", pa.float64(), False)])
LINES = pa.list_(pa.field("vertices", XY, False))
RINGS = pa.list_(pa.field("rings", LINES, False))
MANY = pa.list_(pa.field("polygons", RINGS, False))
BOX = pa.struct([pa.field(side, pa.float64(), False) for side in ("xmin", "ymin", "xmax", "ymax")])
TYPES = {
    "point": XY,
    "linestring": LINES,
    "multipoint": LINES,
    "polygon": RINGS,
    "multilinestring": RINGS,
    "multipolygon": MANY,
    "box": BOX,
    "wkb": pa.binary(),
    "wkt": pa.string(),
}
PREDICATES = (
    "intersects",
    "contains",
    "within",
    "touches",
    "crosses",
    "overlaps",
    "covers",
    "coveredby",
    "disjoint",
    "equals",
)
AREA = "POLYGON ((2 2, 2 9, 9 9, 9 2, 2 2))"
WANTED = (AREA, "POINT (4 4)", "LINESTRING (0 0, 20 20)", "POINT (1000 1000)")


def point(x: float, y: float) -> dict[str, float]:
    return {"x": float(x), "y": float(y)}


def ring(x: float, y: float, size: float) -> list[dict[str, float]]:
    corners = [(x, y), (x + size, y), (x + size, y + size), (x, y + size), (x, y)]
    return [point(*corner) for corner in corners]


def shape(kind: str, x: float, y: float, size: float) -> object:
    line = [point(x, y), point(x + size, y + 2 * size)]
    made = {
        "point": point(x, y),
        "linestring": line,
        "multipoint": line,
        "polygon": [ring(x, y, size)],
        "multilinestring": [line, ring(x, y, size)],
        "multipolygon": [[ring(x, y, size)], [ring(x + 3 * size, y, size)]],
        "box": {"xmin": x, "ymin": y, "xmax": x + size, "ymax": y + size},
        "wkb": shapely.to_wkb(shapely.Point(x, y)),
        "wkt": f"POINT ({x} {y})",
    }
    return made[kind]


def table(rows: int = ROWS, kinds: tuple[str, ...] = tuple(TYPES)) -> pa.Table:
    draw = np.random.default_rng(5)
    places = draw.integers(0, 40, (rows, 2)).astype(float)
    columns = [pa.array(range(rows), pa.int64())]
    fields = [pa.field("i", pa.int64())]
    for kind in kinds:
        shapes = [
            None if row % 11 == 3 else shape(kind, x, y, 1.0 + row % 3) for row, (x, y) in enumerate(places.tolist())
        ]
        columns.append(pa.array(shapes, TYPES[kind]))
        metadata = {"ARROW:extension:name": f"geoarrow.{kind}", "ARROW:extension:metadata": "{}"}
        fields.append(pa.field(kind, TYPES[kind], metadata=metadata))
    return pa.table(columns, schema=pa.schema(fields))


def found(dataset: Any, condition: str, **more: Any) -> list[int]:
    return sorted(dataset.to_table(columns=["i"], filter=condition, **more)["i"].to_pylist())


def created(dataset: Any, column: str, page_size: int = 16) -> None:
    engine = lance.indices.IndexConfig if isinstance(dataset, lance.LanceDataset) else IndexConfig
    dataset.create_scalar_index(column, engine(index_type="rtree", parameters={"page_size": page_size}))


def conditions(column: str) -> list[str]:
    asked = [f"st_{name}({column}, st_geomfromtext('{wanted}'))" for name in PREDICATES for wanted in WANTED[:2]]
    asked += [f"st_intersects(st_geomfromtext('{wanted}'), {column})" for wanted in WANTED]
    asked += [f"{column} IS NULL", f"{column} IS NOT NULL", f"NOT st_intersects({column}, st_geomfromtext('{AREA}'))"]
    return [*asked, f"st_within({column}, st_geomfromtext('{AREA}')) AND i < 300"]


def uses_index(dataset: Any, condition: str) -> bool:
    return "ScalarIndexQuery" in dataset.scanner(filter=condition).explain_plan()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    where = str(tmp_path_factory.mktemp("geo") / "t")
    lance.write_dataset(table(), where, data_storage_version="2.2", max_rows_per_file=300)
    return where


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.spread(0.5, each=False)
def test_predicates_are_those_of_pylance(plain: str, kind: str) -> None:
    theirs, ours = lance.dataset(plain), lancelet.dataset(plain)
    for condition in conditions(kind)[::2]:
        assert found(ours, condition) == found(theirs, condition), condition
    if kind != "multipolygon":
        near = f"st_distance({kind}, st_geomfromtext('POINT (4 4)')) < 3"
        assert found(ours, near) == found(theirs, near)


@pytest.mark.parametrize(
    ("builder", "kind"),
    [
        pytest.param(
            builder, kind, marks=() if (number + at) % 2 else pytest.mark.soak, id=f"{builder.__name__}-{kind}"
        )
        for at, builder in enumerate((lance, lancelet))
        for number, kind in enumerate(TYPES)
    ],
)
@pytest.mark.spread(0.5, each=False)
def test_a_tree_of_many_pages_answers_as_a_scan_does(tmp_path: Path, builder: Any, kind: str) -> None:
    uri = str(tmp_path / "t")
    bare = lance.write_dataset(table(kinds=(kind,)), uri, data_storage_version="2.2", max_rows_per_file=300)
    created(builder.dataset(uri), kind)
    ours, theirs = lancelet.dataset(uri), lance.dataset(uri)
    assert ours.stats.index_stats(f"{kind}_idx")["indices"] == theirs.stats.index_stats(f"{kind}_idx")["indices"]
    for condition in conditions(kind)[::3]:
        expected = found(bare, condition)
        assert found(ours, condition) == expected, condition
        assert found(theirs, condition) == expected, condition
    assert uses_index(ours, f"st_within({kind}, st_geomfromtext('{AREA}'))")
    assert not uses_index(ours, f"st_disjoint({kind}, st_geomfromtext('{AREA}'))")
    assert ours.verify(deep=True).ok


def test_files_are_laid_out_as_those_of_pylance(tmp_path: Path) -> None:
    rows = []
    for engine in (lance, lancelet):
        uri = str(tmp_path / engine.__name__)
        lance.write_dataset(table(kinds=("point",)), uri, data_storage_version="2.2")
        created(engine.dataset(uri), "point", 32)
        folder = next(Path(uri, "_indices").iterdir())
        assert sorted(file.name for file in folder.iterdir()) == ["nulls.lance", "page_data.lance"]
        rows.append(
            [LanceFileReader(str(folder / name)).read_all().to_table() for name in ("page_data.lance", "nulls.lance")]
        )
    (theirs, their_nulls), (ours, our_nulls) = rows
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert our_nulls == their_nulls
    items = int(theirs.schema.metadata[b"num_items"])
    assert ours.slice(0, items).sort_by("id") == theirs.slice(0, items).sort_by("id")
    assert ours["id"].slice(items).to_pylist() == theirs["id"].slice(items).to_pylist()


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "ids"])
@pytest.mark.parametrize("builder", [lance, lancelet], ids=["theirs", "ours"])
@pytest.mark.spread(0.5, each=False)
def test_it_is_extended_compacted_and_dropped(tmp_path: Path, builder: Any, stable: bool) -> None:
    uri = str(tmp_path / "t")
    rows = table(kinds=("polygon", "point"))
    lance.write_dataset(rows, uri, data_storage_version="2.2", max_rows_per_file=300, enable_stable_row_ids=stable)
    created(builder.dataset(uri), "polygon")

    def check() -> None:
        ours = lancelet.dataset(uri)
        for condition in conditions("polygon")[::3]:
            assert found(ours, condition) == found(ours, condition, use_scalar_index=False), condition

    lancelet.write_dataset(rows.slice(0, 150), uri, mode="append")
    lancelet.dataset(uri).delete("i % 9 = 4")
    check()
    lancelet.dataset(uri).optimize.optimize_indices()
    assert lancelet.dataset(uri).stats.index_stats("polygon_idx")["num_unindexed_rows"] == 0
    check()
    lancelet.dataset(uri).optimize.compact_files()
    check()
    assert uses_index(lancelet.dataset(uri), f"st_within(polygon, st_geomfromtext('{AREA}'))")
    lancelet.dataset(uri).optimize.optimize_indices(retrain=True)
    check()
    asked = f"st_within(polygon, st_geomfromtext('{AREA}'))"
    assert found(lance.dataset(uri), asked) == found(lancelet.dataset(uri), asked)
    assert lancelet.dataset(uri).verify(deep=True).ok
    lancelet.dataset(uri).drop_index("polygon_idx")
    assert lancelet.dataset(uri).describe_indices() == []


def test_empty_geometries_and_columns_of_nulls(tmp_path: Path) -> None:
    texts = pa.array(["POINT EMPTY", "POLYGON EMPTY", "POINT (4 4)", None, "LINESTRING (3 3, 5 5)"])
    field = pa.field("g", pa.string(), metadata={"ARROW:extension:name": "geoarrow.wkt"})
    schema = pa.schema([pa.field("i", pa.int64()), field])
    for name, values in {"some": texts, "none": pa.nulls(5, pa.string())}.items():
        uri = str(tmp_path / name)
        ours = lancelet.write_dataset(pa.table([pa.array(range(5)), values], schema=schema), uri)
        before = [found(ours, condition) for condition in conditions("g")]
        created(ours, "g")
        assert [found(lancelet.dataset(uri), condition) for condition in conditions("g")] == before
        assert found(lance.dataset(uri), "g IS NULL") == found(ours, "g IS NULL")


def test_lists_without_points_are_empty_geometries() -> None:
    for kind in ("linestring", "multipoint", "polygon", "multilinestring", "multipolygon"):
        whole = shape(kind, 1, 2, 3)
        for some in ([[]], [None], [[], None, whole], [whole, [], whole, None]):
            found = shapes(pa.array(some, TYPES[kind]), f"geoarrow.{kind}")
            assert [None if one is None else one.is_empty for one in found] == [
                None if one is None else one == [] for one in some
            ]
            around, has = boxes(pa.array(some, TYPES[kind]), f"geoarrow.{kind}")
            assert has.tolist() == [one == whole for one in some]
            assert np.array_equal(around[has], shapely.bounds(found)[has])


@settings(max_examples=examples(30), deadline=None)
@given(st.data())
def test_boxes_are_those_of_shapely(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([name for name in TYPES if name not in ("wkb", "wkt")]))
    some = data.draw(st.lists(st.none() | st.tuples(*[st.floats(-100, 100)] * 2, st.floats(0, 9)), max_size=8))
    values = pa.array([None if one is None else shape(kind, *one) for one in some], TYPES[kind])
    start = data.draw(st.integers(0, len(values)))
    around, has = boxes(values.slice(start), f"geoarrow.{kind}")
    expected = np.asarray(shapely.bounds(shapes(values.slice(start), f"geoarrow.{kind}"))).reshape(-1, 4)
    assert has.tolist() == [one is not None for one in some[start:]]
    assert np.array_equal(around[has], expected[has])


@pytest.mark.parametrize(
    "expression",
    ["st_astext(polygon)", "st_astext(multipoint)", "st_astext(box)", "st_area(polygon)", "st_length(linestring)", "st_length(polygon)",
     "st_xmin(linestring)", "st_ymax(multipolygon)", "st_isempty(wkb)", "st_asbinary(linestring)"],
)  # fmt: skip
def test_what_geometries_are_made_of(plain: str, expression: str) -> None:
    theirs, ours = (engine.dataset(plain).to_table(columns={"r": expression})["r"] for engine in (lance, lancelet))
    assert ours.type == theirs.type
    assert ours.to_pylist() == theirs.to_pylist()


def test_mistakes_are_refused_in_one_sentence(plain: str, tmp_path: Path) -> None:
    ours = lancelet.dataset(plain)
    wrong: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: found(ours, "st_intersects(i, point)"), InvalidInput, "takes geometries"),
        (lambda: found(ours, "st_intersects(point)"), InvalidInput, "takes 2 arguments"),
        (lambda: found(ours, "st_intersects(point, st_geomfromtext('POINT (1'))"), InvalidInput, "not a geometry"),
        (lambda: found(ours, "st_intersects(point, 'POINT (1 1)')"), InvalidInput, "takes geometries"),
        (lambda: created(ours, "i"), InvalidType, "an RTREE index is on geometries"),
        (lambda: created(ours, "point", 1), InvalidInput, "at least 2"),
    ]
    for act, error, words in wrong:
        with pytest.raises(error, match=words) as caught:
            act()
        assert "\n" not in str(caught.value)


def test_without_shapely_it_is_said_what_is_missing(plain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shapely", None)
    with pytest.raises(MissingPackage, match=r"pip install 'lancelet\[geo\]'"):
        found(lancelet.dataset(plain), "st_intersects(point, polygon)")


def test_a_tree_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    created(lancelet.write_dataset(table(200, ("point",)), uri), "point")
    file = next(Path(uri, "_indices").glob("*/page_data.lance"))
    file.write_bytes(
        file.read_bytes().replace(b"num_items\x12\x03182", b"num_items\x12\x03181").replace(b'"182"', b'"181"')
    )
    asked = f"st_within(point, st_geomfromtext('{AREA}'))"
    try:
        answer = found(lancelet.dataset(uri), asked)
    except CorruptFile:
        return
    assert answer == found(lancelet.dataset(uri), asked, use_scalar_index=False)


def step(x: int, y: int, side: int) -> int:
    """How far along a curve through a square of cells one of them is: quarter by quarter."""
    if side == 1:
        return 0
    half = side // 2
    if y >= half:
        return (1 if x < half else 2) * half * half + step(x % half, y % half, half)
    if x < half:
        return step(y, x, half)
    return 3 * half * half + step(half - 1 - y, side - 1 - x, half)


@given(
    st.lists(st.tuples(*[st.integers(0, 65535)] * 2), min_size=1, max_size=40),
    st.sampled_from([(0.0, 0.0), (-3.0, 1e6)]),
)
@settings(max_examples=examples(50), deadline=None)
def test_a_curve_goes_through_every_cell_once_and_from_one_to_the_next(
    cells: list[tuple[int, int]], corner: tuple[float, float]
) -> None:
    wide = 65535.0
    points = np.array(cells, np.float64) + corner
    found = along_curve(np.concatenate([points, points], axis=1), *corner, wide, wide)
    assert found.tolist() == [step(x, y, 1 << 16) for x, y in cells]


def test_boxes_without_numbers_are_at_the_beginning_of_the_curve() -> None:
    sides = np.array([[np.nan] * 4, [-np.inf, -np.inf, np.inf, np.inf], [0, 0, 0, 0]], np.float64)
    assert along_curve(sides, 0.0, 0.0, 1.0, 1.0).tolist() == [0, 0, 0]
