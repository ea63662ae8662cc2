"""The functions that filters and projections can call, by name."""

from __future__ import annotations

import difflib

from lancelet.errors import InvalidInput
from lancelet.query import (
    list_functions,
    number_functions,
    regex_functions,
    struct_functions,
    text_functions,
    time_functions,
)
from lancelet.query.signature import Function

__all__ = ["ALIASES", "FUNCTIONS", "find_function"]

FUNCTIONS: dict[str, Function] = {
    **number_functions.FUNCTIONS,
    **text_functions.FUNCTIONS,
    **regex_functions.FUNCTIONS,
    **list_functions.FUNCTIONS,
    **struct_functions.FUNCTIONS,
    **time_functions.FUNCTIONS,
}

# Other spellings, each of which pylance knows too except is_nan.
ALIASES = {
    "array_contains": "array_has",
    "array_empty": "empty",
    "array_extract": "array_element",
    "arrays_overlap": "array_has_any",
    "cardinality": "array_length",
    "ceiling": "ceil",
    "char_length": "length",
    "character_length": "length",
    "datepart": "date_part",
    "datetrunc": "date_trunc",
    "ifnull": "coalesce",
    "instr": "strpos",
    "is_nan": "isnan",
    "list_contains": "array_has",
    "list_element": "array_element",
    "list_empty": "empty",
    "list_extract": "array_element",
    "list_has": "array_has",
    "list_has_all": "array_has_all",
    "list_has_any": "array_has_any",
    "list_length": "array_length",
    "make_list": "make_array",
    "nvl": "coalesce",
    "position": "strpos",
    "pow": "power",
    "row": "struct",
    "substring": "substr",
    "trim": "btrim",
}

# Names that the algebra uses for operators; they cannot be called by name in SQL.
_OPERATORS = {*number_functions.SYMBOLS, "negate", "case", "is_true", "is_false", "||"}

# Functions that the parser turns into other expressions.
REWRITTEN = ("arrow_cast", "current_date", "current_timestamp", "is_valid", "now", "pi", "today")


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
