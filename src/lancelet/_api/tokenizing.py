"""What a text search makes of a text, without a table: ``lancelet.tokenize``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, Final

import pyarrow as pa

from lancelet.errors import InvalidType
from lancelet.index.text.analyzer import Analyzer
from lancelet.index.text.params import read_options

_TEXTS: Final = pa.field("query", pa.utf8())


@dataclass(frozen=True, slots=True, repr=False)
class FtsToken:
    """A token of a text.

    Attributes
    ----------
    text
        The term that is looked up in an index.
    position
        Its ordinal among all tokens, also those that a filter took away, counted from the first that stayed.
    """

    text: str
    position: int

    def __repr__(self) -> str:
        return f'FtsToken(text="{self.text}", position={self.position})'


def tokenize(
    query: str,
    *,
    analyzer: str | None = None,
    base_tokenizer: str | None = None,
    language: str | None = None,
    max_token_length: int | EllipsisType | None = ...,
    lower_case: bool | None = None,
    stem: bool | None = None,
    remove_stop_words: bool | None = None,
    custom_stop_words: Sequence[str] | None = None,
    ascii_folding: bool | None = None,
    min_ngram_length: int | None = None,
    max_ngram_length: int | None = None,
    prefix_only: bool | None = None,
    split_identifiers: bool | None = None,
    split_on_numerics: bool | None = None,
    preserve_original: bool | None = None,
    index_operators: bool | None = None,
) -> list[FtsToken]:
    """The tokens of a text, as a full-text index with these options would have them.

    Options are those of ``create_scalar_index(..., "INVERTED")``; what is left out, or None, is as there by default.
    Only ``max_token_length=None`` means something of its own: tokens of any length stay.

    Raises
    ------
    ValueError
        An option is not known, or two do not go together.
    TypeError
        Something is of another type.

    Examples
    --------
    >>> import lancelet
    >>> [(token.text, token.position) for token in lancelet.tokenize("the Cats and Dogs")]
    [('cat', 0), ('dog', 2)]
    >>> [token.text for token in lancelet.tokenize("the Cats and Dogs", stem=False, remove_stop_words=False)]
    ['the', 'cats', 'and', 'dogs']
    """
    if not isinstance(query, str):
        raise InvalidType(f"the text to tokenize is a str, not {type(query).__name__}")
    if isinstance(custom_stop_words, str):
        raise InvalidType("custom_stop_words is a list of words, not one text")
    told: dict[str, Any] = {
        "analyzer": analyzer,
        "base_tokenizer": base_tokenizer,
        "language": language,
        "lower_case": lower_case,
        "stem": stem,
        "remove_stop_words": remove_stop_words,
        "custom_stop_words": None if custom_stop_words is None else list(custom_stop_words),
        "ascii_folding": ascii_folding,
        "min_ngram_length": min_ngram_length,
        "max_ngram_length": max_ngram_length,
        "prefix_only": prefix_only,
        "split_identifiers": split_identifiers,
        "split_on_numerics": split_on_numerics,
        "preserve_original": preserve_original,
        "index_operators": index_operators,
    }
    options = {name: value for name, value in told.items() if value is not None}
    if max_token_length is not ...:
        options["max_token_length"] = max_token_length
    found = Analyzer(read_options(_TEXTS, options).params).query(query)
    first = found[0][1] if found else 0
    return [FtsToken(term.decode(), position - first) for term, position in found]
