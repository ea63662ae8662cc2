"""Texts become terms: cut into tokens, which filters change or remove (spec indices.md 10.7).

::

    texts ──> raw tokens ──> too long? ──> lower case ──> stemmer ──> stop words ──> ASCII folding ──> terms
              splitting.pyx                └──────── once for each distinct raw token ─────────┘

A position is the ordinal of a token in its document before filters, so what was removed leaves a gap.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import numpy_array
from lancelet.errors import InvalidType, NotSupported, UnfitData
from lancelet.index.spelling import fold
from lancelet.index.text import characters, splitting
from lancelet.index.text.chinese import ChineseSplitter, open_dictionary
from lancelet.index.text.dictionaries import read_words
from lancelet.index.text.json_documents import Leaves, read_documents, read_query
from lancelet.index.text.params import JSON, TEXT, Params
from lancelet.index.text.segmentation import LANGUAGES, complex_marks, segment_kinds
from lancelet.index.text.splitting import Beginnings, LackingWords, Splitter
from lancelet.index.text.stemming import Stemmer, open_stemmer
from lancelet.index.text.stop_words import stop_words, stop_words_of_all
from lancelet.index.text.terms import Terms
from lancelet.runtime import compute as pc

_SPLITTING: Final = {
    "simple": splitting.SIMPLE,
    "whitespace": splitting.WHITESPACE,
    "raw": splitting.RAW,
    "ngram": splitting.NGRAM,
    "code": splitting.CODE,
    "icu": splitting.ICU,
    "icu/split": splitting.ICU_SPLIT,
}
_ICU: Final = ("icu", "icu/split")
_CUT_AT_SPACES: Final = ("simple", "whitespace", "code")
_Texts = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.int64]]
_NO_BYTES: Final = np.empty(0, np.uint8)
_NO_LISTS: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a batch of documents, in their order; arrays of one length."""

    document: npt.NDArray[np.uint32]
    """Ordinals of documents in the batch, ascending. Documents without tokens do not occur."""
    term: npt.NDArray[np.uint32]
    """Numbers of terms in the analyzer's :class:`~lancelet.index.text.terms.Terms`."""
    position: npt.NDArray[np.uint32]
    """Ordinals of tokens in their document, before filters."""

    def __len__(self) -> int:
        return len(self.term)


class Analyzer:
    """Makes terms of texts.

    Several threads may use one at the same time: each cuts texts on its own, and they share the terms.

    Parameters
    ----------
    params
        How texts become tokens.
    terms
        Where the terms get their numbers; new ones if there are none yet.

    Examples
    --------
    >>> from lancelet.index.text.params import Params
    >>> analyzer = Analyzer(Params(stem=False, remove_stop_words=False))
    >>> tokens = analyzer.analyze(pa.array(["Kelp, more kelp", None, "tide"]))
    >>> tokens.document.tolist(), [analyzer.terms.text(term) for term in tokens.term]
    ([0, 0, 0, 2], [b'kelp', b'more', b'kelp', b'tide'])
    >>> analyzer.query("The tide")
    [(b'the', 0), (b'tide', 1)]
    """

    def __init__(self, params: Params, terms: Terms | None = None) -> None:
        self.params = params
        self.terms = Terms() if terms is None else terms
        self.lock = threading.Lock()
        """Held by whoever takes terms in."""
        self._threads = threading.local()
        # Of JSON documents: makes tokens of the texts in them.
        self._texts = Analyzer(replace(params, lance_tokenizer=TEXT)) if params.lance_tokenizer == JSON else None
        # What is missing or not known is told before the first text.
        self._thread()

    def analyze(self, texts: pa.Array) -> Tokens:
        """The tokens of texts, of lists of texts (each list is a document), or of JSON documents."""
        if self._texts is not None:
            return self._analyze_json(read_documents(_storage(texts).to_pylist()), self._texts)
        thread = self._thread()
        _split(thread.splitter, _texts(texts, join=self.params.base_tokenizer not in _CUT_AT_SPACES))
        return Tokens(*thread.splitter.resolve(thread.terms()))

    def notes(self, texts: pa.Array) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32] | None]:
        """Tokens as rows of document, raw token and position, and the term of each raw token, ``DROPPED`` where it has none.

        These are views of what the thread has, until it is asked again. Where raw tokens are terms nothing more is told.
        """
        if self._texts is not None:
            tokens = self.analyze(texts)
            return np.column_stack([tokens.document, tokens.term, tokens.position]), None
        thread = self._thread()
        _split(thread.splitter, _texts(texts, join=self.params.base_tokenizer not in _CUT_AT_SPACES))
        return thread.splitter.notes(), thread.terms()

    def query(self, text: str) -> list[tuple[bytes, int]]:
        """The terms of a text and their positions; nothing gets a number."""
        if self._texts is not None:
            return self._query_json(read_query(text), self._texts)
        splitter, thread = self._splitter(), self._thread()
        data = np.frombuffer(text.encode(), np.uint8)
        _split(splitter, (data, np.array([0, len(data)], np.int64), _NO_BYTES, _NO_LISTS))
        _, raw, positions = splitter.resolve(np.arange(len(splitter), dtype=np.uint32))
        finished = thread.finish(splitter, 0, all_of_them=True)
        found = (
            (finished[number], position) for number, position in zip(raw.tolist(), positions.tolist(), strict=True)
        )
        return [(term.encode(), position) for term, position in found if term is not None]

    def _analyze_json(self, leaves: Leaves, analyzer: Analyzer) -> Tokens:
        """Tokens of texts get their path's beginning, once for each pair of them; they and the others count together."""
        tokens = analyzer.analyze(pa.array(leaves.texts, pa.large_utf8()))
        fixed = np.array([number for number, text in enumerate(leaves.texts) if text is None], np.int64)
        beginnings = Terms()
        numbers = np.array([beginnings.intern(term) for term in leaves.terms], np.uint64)
        known = np.uint64(max(len(analyzer.terms), 1))
        pairs, places = np.unique(numbers[tokens.document] * known + tokens.term, return_inverse=True)
        first, second = np.divmod(pairs, known)
        combined = [
            beginnings.text(path) + analyzer.terms.text(term)
            for path, term in zip(first.tolist(), second.tolist(), strict=True)
        ]
        terms = np.array(self.intern([*combined, *(leaves.terms[leaf] for leaf in fixed)]), np.uint32)
        leaf = np.concatenate([tokens.document.astype(np.int64), fixed])
        order = np.argsort(leaf, kind="stable")
        document = np.array(leaves.documents, np.uint32)[leaf[order]]
        starts = np.searchsorted(document, document)
        return Tokens(
            document,
            np.concatenate([terms[places.reshape(-1)], terms[len(pairs) :]])[order],
            (np.arange(len(document)) - starts).astype(np.uint32),
        )

    def _query_json(self, leaves: Leaves, analyzer: Analyzer) -> list[tuple[bytes, int]]:
        terms: list[bytes] = []
        for text, term in zip(leaves.texts, leaves.terms, strict=True):
            terms += [term] if text is None else [term + found for found, _ in analyzer.query(text)]
        return list(zip(terms, range(len(terms)), strict=True))

    def intern(self, terms: list[bytes]) -> list[int]:
        """Numbers of terms."""
        with self.lock:
            return [self.terms.intern(term) for term in terms]

    def _splitter(self) -> Splitter | ChineseSplitter:
        params = self.params
        if params.base_tokenizer.partition("/")[0] == "jieba":
            return ChineseSplitter(open_dictionary(params.base_tokenizer), params.max_token_length)
        kind = _SPLITTING.get(params.base_tokenizer)
        if kind is None:
            raise NotSupported(
                f"texts are not cut by the base tokenizer {params.base_tokenizer!r} here: its dictionary belongs to pylance; for "
                "Japanese and Korean use 'icu' (pip install 'lancelet[icu]') or 'ngram', for Chinese also 'jieba'"
            )
        icu = params.base_tokenizer in _ICU
        return Splitter(
            kind,
            characters.character_kinds(),
            limit=params.max_token_length,
            lower=params.lower_case,
            shortest=params.min_ngram_length if kind == splitting.NGRAM else 1,
            longest=params.max_ngram_length if kind == splitting.NGRAM else 1,
            prefix=params.prefix_only,
            parts=kind == splitting.CODE and params.split_identifiers,
            numbers=params.split_on_numerics,
            whole=params.preserve_original,
            operators=kind == splitting.CODE and params.index_operators,
            segments=segment_kinds() if icu else None,
            marks=complex_marks() if icu else None,
        )

    def _thread(self) -> _Thread:
        found: _Thread | None = getattr(self._threads, "own", None)
        if found is None:
            found = self._threads.own = _Thread(self, self._splitter())
        return found


class _Thread:
    """What a thread has of its own: raw tokens, filters, and what became of each token."""

    def __init__(self, analyzer: Analyzer, splitter: Splitter | ChineseSplitter) -> None:
        self.splitter = splitter
        self._analyzer = analyzer
        self._filters = _Filters.of(analyzer.params)
        # Of ASCII alone, raw tokens are in small letters already, and there is nothing to fold.
        self._filters_all = isinstance(splitter, ChineseSplitter) or self._filters.change_all
        self._terms = np.empty(1024, np.uint32)
        self._known = 0

    def terms(self) -> npt.NDArray[np.uint32]:
        """The number of a term for each raw token."""
        known, count = self._known, len(self.splitter)
        if count > len(self._terms):
            self._terms = np.concatenate([self._terms[:known], np.empty(2 * count - known, np.uint32)])
        finished = self.finish(self.splitter, known, self._filters_all)
        with self._analyzer.lock:
            self.splitter.intern(known, finished, self._filters_all, self._analyzer.terms, self._terms)
        self._known = count
        return self._terms

    def finish(self, splitter: Splitter | ChineseSplitter, first: int, all_of_them: bool) -> list[str | None]:
        """What the filters make of raw tokens from a number on; None where they remove one."""
        try:
            return self._filters.apply(splitter.texts(first, all_of_them))
        except UnicodeDecodeError as error:
            raise UnfitData(f"a text that is to be indexed is no UTF-8: {error.object[:100]!r}") from None


@dataclass(frozen=True, slots=True)
class _Filters:
    """What is done with tokens, in this order; a stemmer keeps a state, so these are for one thread."""

    lower: bool
    stem: Stemmer | None
    removed: frozenset[str]
    fold: bool

    @classmethod
    def of(cls, params: Params) -> _Filters:
        return cls(
            params.lower_case,
            open_stemmer(params.language) if params.stem else None,
            _stop_words(params) if params.remove_stop_words else frozenset(),
            params.ascii_folding,
        )

    @property
    def change_all(self) -> bool:
        """Whether tokens in small letters of ASCII alone may become others."""
        return self.stem is not None or bool(self.removed)

    def apply(self, tokens: list[str]) -> list[str | None]:
        """What becomes of tokens; None where they are removed."""
        if self.lower:
            tokens = [characters.lower(token) for token in tokens]
        if self.stem is not None:
            tokens = self.stem(tokens)
        if self.fold:
            # Stop words are compared with what is not folded.
            return [None if token in self.removed else fold(token) for token in tokens]
        return [None if token in self.removed else token for token in tokens]


def _stop_words(params: Params) -> frozenset[str]:
    if params.custom_stop_words is not None:
        return frozenset(params.custom_stop_words)
    return stop_words_of_all() if params.base_tokenizer in _ICU else stop_words(params.language)


def _storage(texts: pa.Array) -> pa.Array:
    return texts.storage if isinstance(texts, pa.ExtensionArray) else texts


def _joined(lists: pa.Array) -> pa.Array:
    """Lists of texts as texts: with a space before each but the first that is not empty. What is null is like empty."""
    found: list[str] = []
    for texts in lists.to_pylist():
        present = [text for text in texts or () if text is not None]
        first = next((number for number, text in enumerate(present) if text), len(present))
        found.append(" ".join(present[first:]))
    return pa.array(found, pa.large_utf8())


def _split(splitter: Splitter | ChineseSplitter, texts: _Texts) -> None:
    """Cut texts; dictionaries are read when a text needs one."""
    if isinstance(splitter, ChineseSplitter):
        return splitter.split(*texts)
    while True:
        try:
            return splitter.split(*texts)
        except LackingWords as error:
            language = int(error.args[0])
        splitter.learn(language, _beginnings(language))


@cache
def _beginnings(language: int) -> Beginnings:
    return Beginnings(read_words(LANGUAGES[language]))


def _texts(texts: pa.Array, *, join: bool) -> _Texts:
    """The bytes of texts, where each begins, which are there, and where each list of them begins.

    Lists are texts with spaces in between; where tokens end at spaces anyway, ``join`` may be False.
    """
    lists = _NO_LISTS
    texts = _storage(texts)
    if pa.types.is_list(texts.type) or pa.types.is_large_list(texts.type):
        if join:
            return _texts(_joined(texts), join=False)
        lengths = pc.list_value_length(texts).fill_null(0)
        lists = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(lengths.to_numpy(zero_copy_only=False), out=lists[1:])
        texts = pc.list_flatten(texts)
    if pa.types.is_string(texts.type):
        width: type[np.int32] | type[np.int64] = np.int32
    elif pa.types.is_large_string(texts.type):
        width = np.int64
    else:
        raise InvalidType(f"texts or lists of texts are needed, not {texts.type}")
    _, offsets_buffer, data_buffer = texts.buffers()
    if len(texts):
        offsets = np.frombuffer(offsets_buffer, width)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    else:
        offsets = np.zeros(1, np.int64)
    data = _NO_BYTES if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    valid = numpy_array(pc.is_valid(texts)).view(np.uint8) if texts.null_count else _NO_BYTES
    return data, offsets, valid, lists
