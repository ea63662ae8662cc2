"""What the bridge's Java and our Python call by name, they call by the same name."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import lancelet.spark
from lancelet.format.logical_types import parse_logical_type
from lancelet.format.schema import schema_from_arrow
from lancelet.spark import bridge, options
from lancelet.spark.predicates import from_json
from lancelet.spark.sql import protocol

SOURCES = Path(__file__).parents[2] / "jvm" / "io" / "lancelet" / "spark"
JAVA = {path.stem: path.read_text() for path in SOURCES.glob("**/*.java")}
READ = {
    path.stem: path.read_text() for room in ("read", "catalog", "rowlevel") for path in SOURCES.glob(f"{room}/*.java")
}
COLUMNS = schema_from_arrow(pa.schema({"a": pa.int32(), "t": pa.string()}))


def texts(source: str) -> set[str]:
    return set(re.findall(r'"([^"]+)"', source))


def mapped(name: str) -> set[str]:
    """What a map of operators gives."""
    (inside,) = re.findall(rf"{name} =\s*Map\.of\(([^)]*)\)", JAVA["Conditions"])
    return set(re.findall(r'"([^"]+)"', inside)[1::2])


def test_options_that_the_bridge_gives_are_those_that_are_read() -> None:
    given = {name.lower() for source in READ.values() for name in texts(source) if re.fullmatch(r"lance\.\w+", name)}
    assert given - {bridge.LANCE_TYPE} == set(bridge.OPTIONS)
    options.check_known(dict.fromkeys(given, ""), writes=False)
    options.check_known(dict.fromkeys(given, ""), writes=True)


def test_facts_are_those_that_are_told() -> None:
    assert texts(JAVA["Facts"]) == set(bridge.FACTS)
    assert tuple(re.findall(r"@param (\w+)", JAVA["Facts"])) == bridge.FACTS


def test_what_the_bridge_asks_for_is_known() -> None:
    asked = re.findall(r'\basked\(("\w+"|[^,"]*"\w+" : "\w+")', JAVA["LanceProvider"])
    assert {name for text in asked for name in texts(text)} == set(bridge.ASKS)


def constants(source: str) -> list[str]:
    """Of an enumeration, in small letters."""
    return [name.lower() for name in re.findall(r"^ +([A-Z_]+)(?:\(\w+\))?[,;]$", source, re.MULTILINE)]


def test_questions_are_those_that_are_answered() -> None:
    assert sorted(constants(JAVA["Ask"])) == sorted(protocol.ASKS)
    for question in protocol.ASKS:
        assert callable(protocol.handler(question))


def test_names_in_questions_and_answers_are_the_same() -> None:
    assert sorted(texts(JAVA["Details"])) == sorted(protocol.KEYS)
    assert sorted(re.findall(r"[A-Z_]+(?= = )", JAVA["Details"])) == sorted(key.upper() for key in protocol.KEYS)


def test_refusals_are_of_the_same_kinds() -> None:
    assert constants(JAVA["Refusal"]) == list(protocol.KINDS)


def test_changes_of_tables_are_those_that_are_understood() -> None:
    assert set(re.findall(r'listed\(\s*"(\w+)"', JAVA["Changes"])) == set(protocol.CHANGES)
    assert set(re.findall(r'= "(\w+)";', JAVA["LanceCatalog"])) == set(protocol.MODES)


def test_types_that_need_no_conversion_are_types_of_lance() -> None:
    assert f'"{bridge.LANCE_TYPE}"' in JAVA["Conditions"]
    (exact,) = re.findall(r"EXACT_LANCE =\s*List\.of\(([^)]*)\)", JAVA["Conditions"])
    for name in texts(exact):
        # Those of times are beginnings: a zone follows.
        assert parse_logical_type(f"{name}-" if name.endswith(":") else name) is not None


@pytest.mark.parametrize("operator", sorted(mapped("COMPARISONS") | mapped("FLIPPED")))
def test_comparisons_are_understood(operator: str) -> None:
    assert (
        operator in str(from_json(f'["{operator}", ["col", "a"], ["lit", "integer", "1"]]', COLUMNS))
        or operator == "<=>"
    )


@pytest.mark.parametrize("operator", sorted(mapped("TEXTS")))
def test_conditions_on_text_are_understood(operator: str) -> None:
    assert operator in str(from_json(f'["{operator}", ["col", "t"], ["lit", "string", "x"]]', COLUMNS))


def test_names_of_the_package_are_found_whatever_was_imported_before() -> None:
    for _ in range(2):
        for name in lancelet.spark.__all__:
            found = getattr(lancelet.spark, name)
            assert (callable(found), found.__name__) == (True, name)
    assert not hasattr(lancelet.spark, "nope")
