"""Geometries: how two of them lie, how far apart they are, and what they are made of. Computed by shapely, an extra.

A geometry is a column of GeoArrow, or what ``st_geomfromtext``, ``st_geomfromwkb`` and ``st_point`` make: WKB. What a storage
type does not tell, the name of the extension type does, which stands after each geometry in a bound call::

    st_intersects(p, st_geomfromtext('POINT (1 1)'))    Call(p, 'geoarrow.point', <wkb>, 'geoarrow.wkb')
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum
from lancelet.expressions.coercion import describe, value_type
from lancelet.expressions.expr import Call, Column, Expr, Literal, type_of
from lancelet.expressions.signature import Bound, Function, arity, as_array, number_arg, text_arg
from lancelet.index.geometry import NAMES, READ_BY_SHAPELY, WKB, box_of, boxes, check_storage, meets, shapely, shapes

__all__ = ["FUNCTIONS", "MEETING", "constant_box"]

_PREDICATES: Final = {
    "st_intersects": ("intersects", "intersects"),
    "st_contains": ("contains", "within"),
    "st_within": ("within", "contains"),
    "st_touches": ("touches", "touches"),
    "st_crosses": ("crosses", "crosses"),
    "st_overlaps": ("overlaps", "overlaps"),
    "st_covers": ("covers", "covered_by"),
    "st_coveredby": ("covered_by", "covers"),
    "st_disjoint": ("disjoint", "disjoint"),
    "st_equals": ("equals", "equals"),
}
"""The function of shapely, and the one with its arguments turned round."""
MEETING: Final = frozenset(_PREDICATES) - {"st_disjoint"}
"""Those that are true only where the boxes around both meet, unless one of them is empty."""
_GEOMETRY: Final = pa.binary()
_MAKERS: Final = ("st_geomfromtext", "st_geomfromwkb", "st_point", "st_makepoint")


def _geometry_arg(name: str, arg: Expr) -> tuple[Expr, Literal]:
    kind = type_of(arg)
    if isinstance(arg, Column) and arg.extension in NAMES and check_storage(value_type(kind), arg.extension):
        return arg, Literal(arg.extension, pa.string())
    made = isinstance(arg, Literal) or (isinstance(arg, Call) and arg.name in _MAKERS)
    if made and (kind == _GEOMETRY or pa.types.is_null(kind)):
        return (Literal(None, _GEOMETRY) if pa.types.is_null(kind) else arg), Literal(WKB, pa.string())
    raise InvalidInput(
        f"{name}() takes geometries: a column of GeoArrow, or st_geomfromtext(...); {arg} is {describe(value_type(kind))}"
    )


def _bind(count: int, kind: pa.DataType, name: str, args: list[Expr]) -> Bound:
    shapely()
    if len(args) == 2 * count and all(isinstance(arg, Literal) and arg.value in NAMES for arg in args[1::2]):
        return args, kind  # bound already
    arity(name, args, count)
    return [part for arg in args for part in _geometry_arg(name, arg)], kind


def _shapes(value: Datum, extension: Datum) -> Any:
    """One geometry, or those of all rows."""
    if isinstance(value, pa.Scalar):
        return shapes(pa.array([value.as_py()], value.type), extension.as_py())[0]
    return shapes(value, extension.as_py())


def _run_binary(compute: Callable[[Any, Any], Any], args: list[Datum], kind: pa.DataType) -> Datum:
    left, left_name, right, right_name = args
    one, other = _shapes(left, left_name), _shapes(right, right_name)
    found = compute(one, other)
    missing = shapely().is_missing(one) | shapely().is_missing(other)
    if np.ndim(found) == 0 and np.ndim(one) == 0 and np.ndim(other) == 0:
        return pa.scalar(None if missing else found.item() if hasattr(found, "item") else found, kind)
    return pa.array(np.asarray(found), kind, mask=np.broadcast_to(missing, np.shape(found)))


def _predicate(name: str) -> Function:
    plain, turned = _PREDICATES[name]

    def compute(one: Any, other: Any) -> Any:
        library = shapely()
        # One geometry against many is prepared once.
        if np.ndim(other) == 0 and other is not None and np.ndim(one):
            library.prepare(other)
            return getattr(library, turned)(other, one)
        if np.ndim(one) == 0 and one is not None and np.ndim(other):
            library.prepare(one)
        return getattr(library, plain)(one, other)

    def run(args: list[Datum], kind: pa.DataType) -> Datum:
        near = _near_rows(args) if name in MEETING else None
        if near is None:
            return _run_binary(compute, args, kind)
        # Geometries are made only where the boxes meet; the others are looked at as numbers.
        values = next(arg for arg in args[::2] if isinstance(arg, pa.Array))
        some = values.take(pa.array(near))
        tested = _run_binary(compute, [some if arg is values else arg for arg in args], kind)
        found = np.zeros(len(values), np.bool_)
        found[near] = np.asarray(tested.fill_null(False))
        return pa.array(found, kind, mask=np.asarray(values.is_null()))

    return Function(partial(_bind, 2, pa.bool_()), run)


def _near_rows(args: list[Datum]) -> npt.NDArray[np.int64] | None:
    """The rows whose boxes meet that of a constant geometry; None where that is not known sooner than the answer."""
    for (values, name), constant in ((args[:2], args[2]), (args[2:], args[0])):
        plain = isinstance(values, pa.Array) and isinstance(constant, pa.Scalar) and name.as_py() not in READ_BY_SHAPELY
        if plain and constant.is_valid and constant.type == _GEOMETRY and (box := box_of(constant.as_py())) is not None:
            around, some = boxes(values, name.as_py())
            return np.flatnonzero(some & meets(around, box))
    return None


def _distance(one: object, other: object) -> Any:
    return shapely().distance(one, other)


def _run_unary(compute: Callable[[Any], Any], args: list[Datum], kind: pa.DataType) -> Datum:
    value, extension = args
    found = _shapes(as_array(value, 1) if isinstance(value, pa.Scalar) else value, extension)
    missing = shapely().is_missing(found)
    computed = np.asarray(compute(found))
    if computed.dtype.kind == "f":
        missing = missing | np.isnan(computed)
    result = pa.array(computed, kind, mask=missing)
    return result[0] if isinstance(value, pa.Scalar) else result


def _unary(kind: pa.DataType, compute: Callable[[Any], Any]) -> Function:
    return Function(partial(_bind, 1, kind), partial(_run_unary, compute))


def _lengths(found: object) -> Any:
    """Of lines; other geometries have none."""
    return np.where(shapely().get_dimensions(found) == 1, shapely().length(found), 0.0)


def _side(number: int) -> Callable[[Any], Any]:
    return lambda found: np.asarray(shapely().bounds(found)).reshape(-1, 4)[:, number]


def _texts(found: object) -> npt.NDArray[np.object_]:
    """WKT without spaces that mean nothing, as pylance writes it."""
    texts = np.asarray(shapely().to_wkt(found, rounding_precision=-1), object)
    tidy = [None if text is None else re.sub(r"(?<=[A-Z]) \(", "(", text).replace(", ", ",") for text in texts.tolist()]
    return np.array(tidy, object)


def _bind_text(name: str, args: list[Expr]) -> Bound:
    shapely()
    arity(name, args, 1)
    return [text_arg(name, args[0])], _GEOMETRY


def _bind_bytes(name: str, args: list[Expr]) -> Bound:
    shapely()
    arity(name, args, 1)
    if not pa.types.is_binary(value_type(type_of(args[0]))):
        raise InvalidInput(f"{name}() takes WKB in bytes, not {describe(value_type(type_of(args[0])))} ({args[0]})")
    return args, _GEOMETRY


def _bind_point(name: str, args: list[Expr]) -> Bound:
    shapely()
    arity(name, args, 2)
    return [number_arg(name, arg) for arg in args], _GEOMETRY


def _run_read(extension: str, args: list[Datum], kind: pa.DataType) -> Datum:
    value = args[0]
    found = shapes(as_array(value, 1) if isinstance(value, pa.Scalar) else value, extension)
    result = pa.array(shapely().to_wkb(found).tolist(), kind)
    return result[0] if isinstance(value, pa.Scalar) else result


def _run_point(args: list[Datum], kind: pa.DataType) -> Datum:
    rows = next((len(arg) for arg in args if isinstance(arg, pa.Array)), None)
    x, y = (as_array(arg, rows or 1).cast(pa.float64()) for arg in args)
    found = shapely().points(x.to_numpy(zero_copy_only=False), y.to_numpy(zero_copy_only=False))
    data = shapely().to_wkb(found).tolist()
    whole = [
        None if (a is None or b is None) else one for a, b, one in zip(x.to_pylist(), y.to_pylist(), data, strict=True)
    ]
    result = pa.array(whole, kind)
    return result[0] if rows is None else result


def constant_box(arg: Expr) -> tuple[float, float, float, float] | None:
    """The box around a geometry that is the same for all rows; None when there is none."""
    return box_of(arg.value) if isinstance(arg, Literal) and isinstance(arg.value, bytes) else None


FUNCTIONS: dict[str, Function] = {
    **{name: _predicate(name) for name in _PREDICATES},
    "st_distance": Function(partial(_bind, 2, pa.float64()), partial(_run_binary, _distance)),
    "st_geomfromtext": Function(_bind_text, partial(_run_read, "geoarrow.wkt"), may_fail=True),
    "st_geomfromwkb": Function(_bind_bytes, partial(_run_read, WKB), may_fail=True),
    "st_point": Function(_bind_point, _run_point),
    "st_makepoint": Function(_bind_point, _run_point),
    "st_x": _unary(pa.float64(), lambda found: shapely().get_x(found)),
    "st_y": _unary(pa.float64(), lambda found: shapely().get_y(found)),
    "st_area": _unary(pa.float64(), lambda found: shapely().area(found)),
    "st_length": _unary(pa.float64(), _lengths),
    "st_xmin": _unary(pa.float64(), _side(0)),
    "st_ymin": _unary(pa.float64(), _side(1)),
    "st_xmax": _unary(pa.float64(), _side(2)),
    "st_ymax": _unary(pa.float64(), _side(3)),
    "st_isempty": _unary(pa.bool_(), lambda found: shapely().is_empty(found)),
    "st_isvalid": _unary(pa.bool_(), lambda found: shapely().is_valid(found)),
    "st_astext": _unary(pa.string(), _texts),
    "st_asbinary": _unary(pa.binary(), lambda found: np.asarray(shapely().to_wkb(found), object)),
}
