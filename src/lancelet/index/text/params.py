"""How texts become tokens, and how tokens are kept: the options of an INVERTED index (spec indices.md 10.1, 10.2).

They stand in three places, in three forms::

    create_scalar_index(..., stem=False)     names and values of users, most of them left out
    metadata.lance, ``params``               a JSON object with all that matters for tokens
    manifest, ``InvertedIndexDetails``       a message; without custom stop words, with the granularity

The first two agree in their names, which are those of :class:`Params`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lancelet.errors import CorruptFile, InvalidInput, InvalidOption, InvalidType, NotSupported
from lancelet.format.extensions import storage_type
from lancelet.format.proto.index_details_pb2 import InvertedIndexDetails
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    from collections.abc import Sequence

TEXT, JSON = "text", "json"
ROW, LIST_ELEMENT = "row", "list_element"
LANGUAGES: Final = (
    "Arabic", "Danish", "Dutch", "English", "Finnish", "French", "German", "Greek", "Hungarian", "Italian",
    "Norwegian", "Portuguese", "Romanian", "Russian", "Spanish", "Swedish", "Tamil", "Turkish",
)  # fmt: skip
TOKENIZERS: Final = ("simple", "whitespace", "raw", "ngram", "icu", "icu/split", "code")
DICTIONARIES: Final = ("jieba", "lindera")
"""Tokenizers with a dictionary, whose name may follow: ``jieba/default``."""
BLOCK_SIZES: Final = (128, 256)
FORMATS: Final = (1, 2, 3)
_CODE: Final = "code"
_CODE_FLAGS: Final = ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators")
_PLACE: Final = "index details"
_MOST: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Params:
    """All that decides which tokens a text has, and how they are kept.

    Examples
    --------
    >>> Params(stem=False).language
    'English'
    >>> Params.from_json(Params(base_tokenizer="raw").to_json()).base_tokenizer
    'raw'
    """

    lance_tokenizer: str = TEXT
    """``text``, or ``json`` for columns of JSON documents."""
    base_tokenizer: str = "simple"
    language: str = "English"
    with_position: bool = False
    max_token_length: int | None = 40
    """Tokens of so many bytes or more are left out; None: none is."""
    lower_case: bool = True
    stem: bool = True
    remove_stop_words: bool = True
    custom_stop_words: tuple[str, ...] | None = None
    """In place of those of the language."""
    ascii_folding: bool = True
    min_ngram_length: int = 3
    max_ngram_length: int = 3
    prefix_only: bool = False
    block_size: int = 128
    """Documents in a block of postings."""
    split_identifiers: bool = False
    split_on_numerics: bool = False
    preserve_original: bool = False
    index_operators: bool = False
    document_granularity: str = ROW
    """``row``, or ``list_element``: each item of a list is a document."""
    format_version: int = 2

    @property
    def index_version(self) -> int:
        """What the manifest calls the version of a segment: documents that are items of lists are known since 3."""
        return 3 if self.document_granularity == LIST_ELEMENT else self.format_version

    def same_tokens(self, other: Params) -> bool:
        """Whether both make the same tokens of a text, whatever the files look like."""
        layout = replace(other, block_size=self.block_size, format_version=self.format_version)
        return self == replace(layout, with_position=self.with_position)

    # As JSON, in ``metadata.lance``

    def to_dict(self) -> dict[str, Any]:
        """The object that stands in ``params``, and that ``index_statistics`` shows."""
        words = None if self.custom_stop_words is None else list(self.custom_stop_words)
        return {name: words if name == "custom_stop_words" else getattr(self, name) for name in _JSON_NAMES}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, path: str = "", *, granularity: str = ROW, format_version: int = 2) -> Params:
        """What a file says; what it does not say is as it always was."""
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            raise CorruptFile(path, f"is no JSON: {text[:100]!r}", "params") from None
        if not isinstance(told, dict):
            raise CorruptFile(path, f"is no JSON object: {text[:100]!r}", "params")
        unknown = sorted(
            name for name in told.keys() - set(_JSON_NAMES) - _OLD_NAMES if told[name] not in (None, False)
        )
        if unknown:
            raise NotSupported(f"{path}: the index has options that this version of lancelet does not know: {unknown}")
        given = {name: told[name] for name in _JSON_NAMES if name in told and told[name] is not None}
        if told.get("max_token_length", 0) is None:
            given["max_token_length"] = None
        if isinstance(given.get("custom_stop_words"), list):
            given["custom_stop_words"] = tuple(given["custom_stop_words"])
        found = cls(**given, document_granularity=granularity, format_version=format_version)
        try:
            found.check()
        except InvalidInput as error:
            raise CorruptFile(path, str(error), "params") from None
        return found

    # As a message, in the manifest

    def to_details(self) -> bytes:
        """The message in the manifest."""
        details = InvertedIndexDetails(
            base_tokenizer=self.base_tokenizer,
            language=json.dumps(self.language),
            with_position=self.with_position,
            lower_case=self.lower_case,
            stem=self.stem,
            remove_stop_words=self.remove_stop_words,
            ascii_folding=self.ascii_folding,
            min_ngram_length=self.min_ngram_length,
            max_ngram_length=self.max_ngram_length,
            prefix_only=self.prefix_only,
            block_size=self.block_size,
            document_granularity=int(self.document_granularity == LIST_ELEMENT),
            posting_format_version=self.format_version,
        )
        if self.max_token_length is not None:
            details.max_token_length = self.max_token_length
        if self.base_tokenizer == _CODE:
            for name in _CODE_FLAGS:
                setattr(details.code_config, name, getattr(self, name))
            details.code_config.SetInParent()
        return details.SerializeToString(deterministic=True)

    @classmethod
    def from_details(cls, data: bytes, path: str) -> Params:
        """What the manifest says; custom stop words and JSON are not told there."""
        details = parse_message(data, InvertedIndexDetails, path, _PLACE)
        code = details.code_config
        return cls(
            base_tokenizer=details.base_tokenizer or "simple",
            language=details.language.strip('"') or "English",
            with_position=details.with_position,
            max_token_length=details.max_token_length if details.HasField("max_token_length") else None,
            lower_case=details.lower_case,
            stem=details.stem,
            remove_stop_words=details.remove_stop_words,
            ascii_folding=details.ascii_folding,
            min_ngram_length=details.min_ngram_length,
            max_ngram_length=details.max_ngram_length,
            prefix_only=details.prefix_only,
            block_size=details.block_size if details.HasField("block_size") else BLOCK_SIZES[0],
            **{name: getattr(code, name) for name in _CODE_FLAGS},
            document_granularity=LIST_ELEMENT if details.document_granularity else ROW,
            format_version=details.posting_format_version if details.HasField("posting_format_version") else 1,
        )

    # Checks

    def check(self) -> None:
        """Raise when options are of a wrong type, unknown, or do not go together."""
        for field in fields(self):
            _check_type(field.name, getattr(self, field.name))
        name, _, rest = self.base_tokenizer.partition("/")
        if self.base_tokenizer not in TOKENIZERS and not (name in DICTIONARIES and (rest or name == "jieba")):
            raise InvalidInput(
                f"unknown base tokenizer {self.base_tokenizer!r}; known are {', '.join(TOKENIZERS)}, and "
                f"{' and '.join(DICTIONARIES)} with the name of a dictionary"
            )
        if self.language not in LANGUAGES:
            raise InvalidInput(f"unknown language {self.language!r}; known are {', '.join(LANGUAGES)}")
        if self.lance_tokenizer not in (TEXT, JSON):
            raise InvalidInput(f"unknown lance_tokenizer {self.lance_tokenizer!r}; known are {TEXT} and {JSON}")
        if self.document_granularity not in (ROW, LIST_ELEMENT):
            raise InvalidInput(f"unknown document_granularity {self.document_granularity!r}")
        if self.base_tokenizer == "ngram" and not 0 < self.min_ngram_length <= self.max_ngram_length:
            raise InvalidInput(
                f"min_ngram_length {self.min_ngram_length} must be greater than 0 and not greater than max_ngram_length "
                f"{self.max_ngram_length}"
            )
        if self.block_size not in BLOCK_SIZES:
            raise InvalidInput(f"block_size must be one of 128 or 256, not {self.block_size}")
        if self.format_version not in FORMATS:
            raise InvalidInput(f"unsupported format_version {self.format_version}, expected 1, 2, or 3")
        if self.block_size == 256 and self.format_version != 3:
            raise InvalidInput(f"format_version {self.format_version} is incompatible with block_size 256; use 3")
        if self.base_tokenizer == _CODE and self.format_version != 3:
            raise InvalidInput(f"base_tokenizer 'code' requires format_version 3, not {self.format_version}")


def has_unknown_details(data: bytes, path: str) -> bool:
    """Whether the manifest says more of an index than this version understands."""
    details = parse_message(data, InvertedIndexDetails, path, _PLACE)
    if details.json_tokenizer_mode or details.disable_cross_array_unnest or details.document_granularity > 1:
        return True
    size = details.ByteSize()
    details.DiscardUnknownFields()
    return size != details.ByteSize()


_JSON_NAMES: Final = tuple(
    field.name for field in fields(Params) if field.name not in ("document_granularity", "format_version")
)
_OLD_NAMES: Final = frozenset({"tokenizer_type"})


def _check_type(name: str, value: object) -> None:
    """Raise for a value that is of another type than an option's."""
    kind = type(getattr(_DEFAULTS, name))
    if name == "custom_stop_words":
        if value is not None and not (isinstance(value, tuple) and all(isinstance(word, str) for word in value)):
            raise InvalidType(f"custom_stop_words must be a list of texts, not {value!r}")
        return
    if name == "max_token_length" and value is None:
        return
    if kind is not type(value):
        raise InvalidType(f"{name} must be of type {kind.__name__}, not {value!r}")
    if isinstance(value, int) and not 0 <= value <= _MOST:
        raise InvalidOption(f"{name} must be a number from 0 to {_MOST}, not {value}")


_DEFAULTS: Final = Params()


@dataclass(frozen=True, slots=True)
class TextOptions:
    """What users say of an index: the parameters that stay with it, and those of one build."""

    params: Params
    memory_limit: int | None = None
    """Bytes; None: as for any index."""
    num_workers: int | None = None
    staged: int | None = None
    """The number of a part that waits to be merged with others; None: a whole segment."""


_OF_A_BUILD: Final = ("memory_limit", "num_workers")
PARAMS: Final = "params"
"""The option under which a segment passes on what it was built with."""
STAGED: Final = "staged"
"""The option that makes a part of a segment, under a number, which waits to be merged."""


def read_options(column: pa.Field, options: Mapping[str, Any]) -> TextOptions:
    """Options for a column, in the words of users.

    Raises
    ------
    InvalidInput, InvalidType, InvalidOption
        An option is not known, or makes no sense.
    """
    told = dict(options)
    build = {name: _build_option(name, told.pop(name, None)) for name in _OF_A_BUILD}
    build[STAGED] = told.pop(STAGED, None)
    if isinstance(told.get(PARAMS), Params):
        return TextOptions(told[PARAMS], **build)
    is_json = check_column(column)
    unknown = told.keys() - set(_JSON_NAMES) - {"document_granularity", "format_version", "analyzer"}
    if unknown or "lance_tokenizer" in told:
        name = min(unknown or {"lance_tokenizer"})
        raise InvalidInput(f"unknown option {name!r} of an INVERTED index; known are {', '.join(_user_names())}")
    analyzer = told.pop("analyzer", None)
    version = told.pop("format_version", None)
    granularity = told.pop("document_granularity", None)
    base = told.setdefault("base_tokenizer", _CODE if analyzer == _CODE else "simple")
    _check_analyzer(analyzer, base, told)
    if base in ("ngram", _CODE):
        told = {"stem": False, "remove_stop_words": False, **told}
    if base == _CODE:
        told = {"split_on_numerics": True, "preserve_original": True, **told}
    if isinstance(told.get("custom_stop_words"), list):
        told["custom_stop_words"] = tuple(told["custom_stop_words"])
    natural = 3 if base == _CODE or told.get("block_size") == 256 else 2
    params = Params(
        **told,
        lance_tokenizer=JSON if is_json else TEXT,
        format_version=natural if version is None else _version(version),
        document_granularity=granularity_of(granularity),
    )
    params.check()
    if params.document_granularity == LIST_ELEMENT and not _is_list(storage_type(column.type)):
        raise InvalidInput(
            f"column {column.name!r} has no lists; document_granularity list_element is for items of lists"
        )
    return TextOptions(params, **build)


def _user_names() -> Sequence[str]:
    return [*(name for name in _JSON_NAMES if name != "lance_tokenizer"), "analyzer", "format_version", *_OF_A_BUILD]


def _build_option(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidType(f"{name} must be a number, not {value!r}")
    if value < 0 or (name == "memory_limit" and value == 0):
        raise InvalidOption(f"{name} must be greater than 0, not {value}")
    return value << 20 if name == "memory_limit" else value


def _check_analyzer(analyzer: object, base: object, told: Mapping[str, Any]) -> None:
    if analyzer not in (None, "text", _CODE):
        raise InvalidInput(f"unknown analyzer {analyzer!r}, expected 'text' or 'code'")
    if analyzer == "text" and base == _CODE:
        raise InvalidInput("base_tokenizer 'code' requires analyzer 'code'")
    if analyzer == _CODE and base != _CODE:
        raise InvalidInput(f"analyzer 'code' requires base_tokenizer 'code', not {base!r}")
    if base != _CODE and any(told.get(name) for name in _CODE_FLAGS):
        raise InvalidInput(f"{', '.join(_CODE_FLAGS)} require analyzer 'code'")


def _version(version: object) -> int:
    text = str(version).removeprefix("v")
    if isinstance(version, bool) or text not in map(str, FORMATS):
        raise InvalidInput(f"unsupported format_version {version!r}, expected 1, 2, or 3")
    return int(text)


def granularity_of(granularity: Any) -> str:
    """What counts as a document, by a name or a member of an enumeration."""
    if granularity is None:
        return ROW
    found = getattr(granularity, "value", granularity)
    if not isinstance(found, str):
        raise InvalidType(f"document_granularity is a DocumentGranularity, not {granularity!r}")
    return found


def check_column(column: pa.Field) -> bool:
    """Raise unless the texts of a column can be indexed; whether they are JSON documents."""
    said = (column.metadata or {}).get(b"ARROW:extension:name", b"").decode()
    if getattr(column.type, "extension_name", said) in ("lance.json", "arrow.json"):
        return True
    found = storage_type(column.type)
    kind = found.value_type if _is_list(found) else found
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return False
    raise InvalidType(
        f"INVERTED index column {column.name} must be string, large string or list of strings, or json, but got {kind}"
    )


def _is_list(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list(dtype) or pa.types.is_large_list(dtype))
