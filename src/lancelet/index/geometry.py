"""Columns of geometries, as GeoArrow has them: their names, the boxes around them, and their shapes for shapely.

::

    geoarrow.point                          struct x, y (z, m), or fixed_size_list [2]
    geoarrow.linestring  .multipoint        list of points
    geoarrow.polygon     .multilinestring   list of list of points
    geoarrow.multipolygon                   list of list of list of points
    geoarrow.box                            struct xmin, ymin, xmax, ymax
    geoarrow.wkb  .wkt                      bytes, text

Boxes are in two dimensions. Around an empty geometry there is none. Bytes and texts are read by shapely, an extra.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet._naming.extras import import_extra
from lancelet.errors import InvalidInput
from lancelet.runtime import compute as pc

PREFIX: Final = "geoarrow."
WKB: Final = "geoarrow.wkb"
_WKT: Final = "geoarrow.wkt"
_BOX: Final = "geoarrow.box"
_LEVELS: Final = {"point": 0, "linestring": 1, "multipoint": 1, "polygon": 2, "multilinestring": 2, "multipolygon": 3}
"""How many lists are around the points."""
_TYPES: Final = {
    "linestring": "LINESTRING",
    "multipoint": "MULTIPOINT",
    "polygon": "POLYGON",
    "multilinestring": "MULTILINESTRING",
    "multipolygon": "MULTIPOLYGON",
}
_SIDES: Final = ("xmin", "ymin", "xmax", "ymax")
NAMES: Final = (*(PREFIX + name for name in _LEVELS), _BOX, WKB, _WKT)

READ_BY_SHAPELY: Final = (WKB, _WKT)

Boxes = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]


def shapely() -> Any:
    """The package that computes with geometries."""
    return import_extra("shapely", "geo", "computing with geometries")


def boxes(values: pa.Array, extension: str) -> tuple[Boxes, npt.NDArray[np.bool_]]:
    """The box around each geometry (least x and y, greatest x and y), and which have one."""
    valid: npt.NDArray[np.bool_] = np.asarray(values.is_valid())
    name = extension.removeprefix(PREFIX)
    if name in ("wkb", "wkt"):
        around = np.asarray(shapely().bounds(shapes(values, extension)), np.float64).reshape(-1, 4)
    elif name == "box":
        around = np.stack([_floats(values.field(side)) for side in _SIDES], axis=1)
    else:
        points, offsets = _points(values, extension)
        around = np.full((len(values), 4), np.nan)
        if not offsets:
            around[:, :2] = around[:, 2:] = points
        else:
            first, last = offsets[0][:-1], offsets[0][1:]
            for level in offsets[1:]:
                first, last = level[first], level[last]
            some = np.flatnonzero((last > first) & valid)
            ends = np.stack([first[some], last[some]], axis=1).reshape(-1)
            for axis in (0, 1) if len(some) else ():
                around[some, axis] = np.minimum.reduceat(np.append(points[:, axis], np.inf), ends)[::2]
                around[some, axis + 2] = np.maximum.reduceat(np.append(points[:, axis], -np.inf), ends)[::2]
    for side in range(4):
        valid = valid & ~np.isnan(around[:, side])
    return around, valid


def shapes(values: pa.Array, extension: str) -> npt.NDArray[np.object_]:
    """Geometries as shapely's; None for null."""
    library, name = shapely(), extension.removeprefix(PREFIX)
    try:
        if name == "wkb":
            found = library.from_wkb(values.to_numpy(zero_copy_only=False))
        elif name == "wkt":
            found = library.from_wkt(values.to_numpy(zero_copy_only=False))
        elif name == "box":
            found = library.box(*(_floats(values.field(side)) for side in _SIDES), ccw=False)
        elif name == "point":
            found = library.points(_points(values, extension)[0])
        else:
            found = _ragged(library, values, extension)
    except library.errors.ShapelyError as error:
        raise InvalidInput(f"a value is not a geometry: {' '.join(str(error).split())}") from error
    found = np.asarray(found, object).reshape(len(values))
    found[np.asarray(values.is_null())] = None
    return found


def _ragged(library: Any, values: pa.Array, extension: str) -> npt.NDArray[np.object_]:
    """Geometries of lists of points."""
    kind = _TYPES[extension.removeprefix(PREFIX)]
    found = np.full(len(values), None, object)
    present = values.drop_null() if values.null_count else values.take(pa.array(np.arange(len(values))))
    points, offsets = _points(present, extension)
    if len(points):
        shaped = library.from_ragged_array(library.GeometryType[kind], points, tuple(reversed(offsets)))
    else:
        shaped = np.full(len(present), library.from_wkt(f"{kind} EMPTY"), object)
    found[np.asarray(values.is_valid())] = shaped
    return found


def box_of(data: bytes) -> tuple[float, float, float, float] | None:
    """The box around a geometry in WKB; None around an empty one."""
    around, some = boxes(pa.array([data], pa.binary()), WKB)
    if not some[0]:
        return None
    low_x, low_y, high_x, high_y = around[0].tolist()
    return low_x, low_y, high_x, high_y


def meets(around: Boxes, box: tuple[float, float, float, float]) -> npt.NDArray[np.bool_]:
    """Which boxes have a point in common with another one."""
    low_x, low_y, high_x, high_y = box
    found: npt.NDArray[np.bool_] = (
        (around[:, 0] <= high_x) & (around[:, 2] >= low_x) & (around[:, 1] <= high_y) & (around[:, 3] >= low_y)
    )
    return found


def _points(values: pa.Array, extension: str) -> tuple[Boxes, list[Longs]]:
    """All points, and for each list around them where its items begin, the outermost first."""
    offsets: list[Longs] = []
    for _ in range(_LEVELS[extension.removeprefix(PREFIX)]):
        offsets.append(np.asarray(values.offsets).astype(np.int64))
        values = values.values
    if pa.types.is_struct(values.type):
        return np.stack([_floats(values.field("x")), _floats(values.field("y"))], axis=1), offsets
    size = values.type.list_size
    flat = _floats(values.values)[values.offset * size : (values.offset + len(values)) * size]
    return np.ascontiguousarray(flat.reshape(-1, size)[:, :2]), offsets


def _floats(values: pa.Array) -> npt.NDArray[np.float64]:
    return np.asarray(pc.fill_null(values.cast(pa.float64()), np.nan))


def check_storage(dtype: pa.DataType, extension: str) -> bool:
    """Whether values of a type can be geometries of that name."""
    if extension == WKB:
        return bool(pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype))
    if extension == _WKT:
        return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype))
    if extension == _BOX:
        return bool(pa.types.is_struct(dtype) and all(dtype.get_field_index(side) >= 0 for side in _SIDES))
    for _ in range(_LEVELS.get(extension.removeprefix(PREFIX), 0)):
        if not (pa.types.is_list(dtype) or pa.types.is_large_list(dtype)):
            return False
        dtype = dtype.value_type
    if pa.types.is_struct(dtype):
        return bool(dtype.get_field_index("x") >= 0 and dtype.get_field_index("y") >= 0)
    return bool(pa.types.is_fixed_size_list(dtype) and dtype.list_size >= 2)
