"""The functions that filters and projections can call, by name."""

from __future__ import annotations

import difflib

from lancelet.errors import InvalidInput
from lancelet.expressions import (
    array_functions,
    calendar_functions,
    character_functions,
    geo_functions,
    hash_functions,
    json_functions,
    list_functions,
    map_functions,
    math_functions,
    number_functions,
    regex_functions,
    series_functions,
    struct_functions,
    text_functions,
    time_functions,
)
from lancelet.expressions.signature import Function

__all__ = ["ALIASES", "FUNCTIONS", "find_function"]

FUNCTIONS: dict[str, Function] = {
    **number_functions.FUNCTIONS,
    **math_functions.FUNCTIONS,
    **text_functions.FUNCTIONS,
    **character_functions.FUNCTIONS,
    **hash_functions.FUNCTIONS,
    **regex_functions.FUNCTIONS,
    **list_functions.FUNCTIONS,
    **array_functions.FUNCTIONS,
    **series_functions.FUNCTIONS,
    **map_functions.FUNCTIONS,
    **json_functions.FUNCTIONS,
    **geo_functions.FUNCTIONS,
    **struct_functions.FUNCTIONS,
    **time_functions.FUNCTIONS,
    **calendar_functions.FUNCTIONS,
}

# Other spellings, each of which pylance knows too except is_nan and list_min.
ALIASES = {
    "array_cat": "array_concat",
    "array_contains": "array_has",
    "array_empty": "empty",
    "array_extract": "array_element",
    "array_indexof": "array_position",
    "array_join": "array_to_string",
    "array_push_back": "array_append",
    "array_push_front": "array_prepend",
    "arrays_overlap": "array_has_any",
    "ceiling": "ceil",
    "char_length": "length",
    "character_length": "length",
    "date_format": "to_char",
    "datepart": "date_part",
    "datetrunc": "date_trunc",
    "dot_product": "inner_product",
    "element_at": "map_extract",
    "ifnull": "coalesce",
    "instr": "strpos",
    "is_nan": "isnan",
    "list_zip": "arrays_zip",
    "make_list": "make_array",
    "nvl": "coalesce",
    "position": "strpos",
    "pow": "power",
    "rand": "random",
    "row": "struct",
    "string_to_list": "string_to_array",
    "substring": "substr",
    "substring_index": "substr_index",
    "trim": "btrim",
}
# Every array function goes by the name of a list function too.
ALIASES |= {
    f"list_{name.removeprefix('array_')}": ALIASES.get(name, name)
    for name in (*FUNCTIONS, *ALIASES)
    if name.startswith("array_")
}

# Names that the algebra uses for operators; they cannot be called by name in SQL.
_OPERATORS = {*number_functions.SYMBOLS, "negate", "case", "is_true", "is_false", "||"}

# Functions that the parser turns into other expressions.
REWRITTEN = (
    "arrow_cast",
    "arrow_try_cast",
    "arrow_typeof",
    "current_date",
    "current_time",
    "current_timestamp",
    "is_valid",
    "now",
    "pi",
    "today",
)


def find_function(name: str) -> str:
    """The name under which ``FUNCTIONS`` holds a function written as ``name``."""
    lowered = name.lower()
    found = ALIASES.get(lowered, lowered)
    if found in FUNCTIONS and found not in _OPERATORS:
        return found
    known = [*(set(FUNCTIONS) - _OPERATORS), *ALIASES, *REWRITTEN]
    close = difflib.get_close_matches(lowered, sorted(known), n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(sorted(known))}"
    raise InvalidInput(f"there is no function {name}(); {hint}")
