"""JSON text to JSONB and back, byte for byte as pylance has it."""

from __future__ import annotations

import json
import random
import struct

import lance
import numpy as np
import pyarrow as pa
import pytest

from lancelet.encoding.fetch import run
from lancelet.encoding.jsonb import decode_jsonb, encode_jsonb
from lancelet.encoding.rows import RowRange
from lancelet.errors import CorruptFile, InvalidInput
from unit.encoding.samples import File20

INTEGERS = [
    sign * 2**bits + step
    for bits in (0, 7, 8, 15, 16, 31, 32, 53, 63, 64, 65, 80)
    for sign in (1, -1)
    for step in (-1, 0, 1)
]
FLOATS = [
    "1.0", "-0.0", "0.0", "0.1", "1e3", "1E-7", "1e400", "-1e400", "1e-400", "1e15", "1e16", "1e17", "1e22", "0.0001", "0.00001", "0.000012345",
    "0.00000999", "1e-6", "5e-324", "2.2250738585072014e-308", "1.7976931348623157e308", "123456789.123456789", "9007199254740993.0",
    "1234567890123456.0", "12345678901234560.0", "99999999999999999999.5", "0.30000000000000004", "1.5e-10", "-0", "0e5", "100.0", "1e+5",
]  # fmt: skip
TEXTS = [
    '""', '"x"', '"é"', '"\\u00e9"', r'"\n\t\r\b\f\\\"\/"', r'"\u0000\u0001\u001f\u007f\u2028"', r'"\ud83d\ude00"', '"🦎"', r'"\uFFFF"',
    r'"\ud83d"', r'"\ude00"', r'"\ud83dx"', r'"\ud83d\u0041"', r'"\uD83D\uD83D\uDE00"', '"tab\there"', '"<>&\'"',
]  # fmt: skip
CONTAINERS = [
    "[]", "{}", "[[]]", '{"a":{}}', "[1,2,[3,[]],{}]", '{"b":1,"a":2,"":3,"aa":4}', '{"z":{"y":[1,null,true,"s",false]}}', ' [ 1 ,\n2 ] ',
    r'{"k\n\"":"v"}', '{"é":1,"z":2,"f":3,"🦎":4,"\\uffff":5}', '{"b":[{"d":1,"c":[]}],"a":{"y":{},"x":[[]]}}', "[" * 300 + "]" * 300,
]  # fmt: skip
DOCUMENTS = ["null", "true", "false", *map(str, INTEGERS), *FLOATS, *TEXTS, *CONTAINERS]


def through_pylance(folder, texts: list[str | None]) -> tuple[pa.Array, list[str | None]]:
    """The bytes that pylance stores and the text that it gives back."""
    lance.write_dataset(pa.table({"c": pa.array(texts, pa.json_())}), folder, data_storage_version="2.0")
    (path,) = (folder / "data").iterdir()
    file = File20(path)
    stored = run(file.reader.read(file.schema.fields[0], RowRange(0, len(texts))), file.source)
    return stored, lance.dataset(folder).to_table()["c"].to_pylist()


def test_documents(tmp_path):
    texts = [*DOCUMENTS, None, *(f"[{d}]" for d in DOCUMENTS), *(f'{{"k":{d},"j":null}}' for d in DOCUMENTS)]
    stored, expected = through_pylance(tmp_path / "t", texts)
    for text, ours, theirs in zip(texts, decode_jsonb(stored).to_pylist(), expected, strict=True):
        assert ours == theirs, text
    for text, ours, theirs in zip(texts, encode_jsonb(pa.array(texts)).to_pylist(), stored.to_pylist(), strict=True):
        assert ours == theirs, text


def test_random_documents(tmp_path):
    r = random.Random(3)

    def draw(depth: int) -> object:
        kind = r.randrange(9 if depth else 6)
        if kind == 0:
            return r.choice([None, True, False])
        if kind == 1:
            return r.randint(-(2 ** r.randrange(70)), 2 ** r.randrange(70))
        if kind == 2:
            return struct.unpack("<d", struct.pack("<Q", r.getrandbits(64) & ~(1 << 62)))[0]
        if kind == 3:
            return round(r.uniform(-1e4, 1e4), r.randrange(12))
        if kind < 6:
            return "".join(
                chr(r.choice([r.randrange(128), r.randrange(0x2FF), 0x1F98E])) for _ in range(r.randrange(9))
            )
        if kind == 6:
            return [draw(depth - 1) for _ in range(r.randrange(5))]
        return {str(draw(0)): draw(depth - 1) for _ in range(r.randrange(5))}

    texts = [json.dumps(draw(4), ensure_ascii=r.random() < 0.5) for _ in range(1500)]
    stored, expected = through_pylance(tmp_path / "t", texts)
    assert decode_jsonb(stored).to_pylist() == expected
    assert encode_jsonb(pa.array(texts, pa.large_string())).to_pylist() == stored.to_pylist()


def test_slices_and_nulls():
    stored = encode_jsonb(pa.array(["1", None, '"a"', "[2]", None]))
    assert decode_jsonb(stored.slice(1, 3)).to_pylist() == [None, '"a"', "[2]"]
    assert decode_jsonb(stored.cast(pa.binary())).to_pylist() == ["1", None, '"a"', "[2]", None]
    assert decode_jsonb(pa.array([], pa.large_binary())).to_pylist() == []
    assert decode_jsonb(pa.nulls(2, pa.large_binary())).to_pylist() == [None, None]
    assert encode_jsonb(pa.array(["9", "8"]).slice(1)).to_pylist() == encode_jsonb(pa.array(["8"])).to_pylist()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "there is no text"), ("{", "name in quotes"), ("[1 2]", "',' or ']'"), ('{"a" 1}', "':'"), ('{"a":1,"a":2}', "twice"),
        ("01", "more text"), ("1.", "digit"), ("-", "digit"), ("nul", "a value"), ('"a', "ends inside"), (r'"\x41"', "escape"),
        (r'"\u00g0"', "hexadecimal"), ("[1,]", "a value"), ("1 2", "more text"), ("[" * 1100, "deeper"), ("+1", "a value"),
    ],
)  # fmt: skip
def test_text_that_is_not_json(text, reason):
    with pytest.raises(InvalidInput, match="value 1 is not JSON") as error:
        encode_jsonb(pa.array(["1", text]))
    assert reason in str(error.value)


@pytest.mark.parametrize(
    "stored",
    ["", "20", "20000000", "2000000020000002", "2000000160000000", "80ffffff", "40000001100000ff20000001", "200000002000000900", "ff000000",
     "2000000020000001ff", "200000001000000162ff", "2000000010000001ff", "80000001600000015f", "20000000200000024100", "800000015000000420000000"],
)  # fmt: skip
def test_bytes_that_are_not_jsonb(stored):
    with pytest.raises(CorruptFile):
        decode_jsonb(pa.array([bytes.fromhex(stored)], pa.large_binary()), "file.lance", "column 1")


def test_depth_is_bounded():
    deep = b""
    for _ in range(1100):
        deep = b"\x80\x00\x00\x01" + (0x50000000 | len(deep)).to_bytes(4, "big") + deep if deep else b"\x80\x00\x00\x00"
    with pytest.raises(CorruptFile, match="deeper"):
        decode_jsonb(pa.array([deep], pa.large_binary()))


def test_flipped_bytes_give_our_error_or_text():
    stored = encode_jsonb(pa.array([text for text in DOCUMENTS if len(text) < 300]))
    r = random.Random(11)
    values = stored.to_pylist()
    for _ in range(3000):
        data = bytearray(r.choice(values))
        for _ in range(r.choice([1, 1, 2, 4])):
            data[r.randrange(len(data))] = r.choice([0, 0x7F, 0xFF, r.randrange(256)])
        try:
            text = decode_jsonb(pa.array([bytes(data)], pa.large_binary()), "file.lance")
        except CorruptFile as error:
            assert "file.lance" in str(error)
        else:
            text.validate(full=True)
            json.loads(text[0].as_py(), strict=False)


def test_offsets_that_lie_are_not_followed():
    from lancelet.encoding.kernels import jsonb

    data = np.frombuffer(b"\x20\0\0\0\0\0\0\0", np.uint8)
    for lie in ([0, 9], [-1, 8], [8, 0]):
        out = np.zeros(2, np.int64)
        assert jsonb.to_text(data, np.array(lie), np.ones(1, np.uint8), out)[1] == 0
