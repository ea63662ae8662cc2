"""The errors that users see.

Every error raised by a public call is one of these, and is also the built-in
that a caller of pylance would expect, so ``except ValueError`` keeps working::

    LanceletError
    ├── InvalidInput (ValueError)            an argument makes no sense
    │   ├── InvalidType (TypeError)          an argument of a type that is not accepted
    │   ├── InvalidOption (OverflowError, OSError)   an option out of its range, or of no use for this table
    │   ├── RowNotFound (IndexError, OverflowError, NotImplementedError, OSError)   a row that this version does not have
    │   ├── UnfitData (OSError)              rows that this table, or any table, cannot take
    │   ├── MergeRefused (OSError)           a merge that is ambiguous, or meets a row that it must not meet
    │   ├── InvalidChange (OSError)          a change of columns or metadata that this table cannot take
    │   ├── InvalidCleanup (OverflowError, OSError)   a cleanup that would remove what it must not
    │   ├── InvalidRef (OSError)             a name that no tag or branch can have
    │   ├── IndexRefused (RuntimeError)      an index that the table cannot have
    │   ├── InvalidBase (OSError)            a base path that the table does not or cannot have
    │   ├── UnknownColumn (KeyError)         a column that the schema does not have
    │   └── FilterSyntaxError                a filter or expression that does not parse
    ├── NotFound (ValueError, OSError)       the thing asked for is not there
    │   ├── TableNotFound (FileNotFoundError)
    │   ├── VersionNotFound
    │   ├── RefNotFound                      no such tag or branch
    │   └── IndexNotFound (KeyError, RuntimeError)
    ├── MissingFile (FileNotFoundError)      a file that the table refers to is gone
    ├── CorruptFile (OSError)                bytes that cannot be what they claim to be
    │   └── UnsafePath                       a path that leaves the table
    ├── PathNotAllowed (PermissionError)     a table refers to a place that the caller did not allow or name
    ├── NotSupported (NotImplementedError, OSError)   a feature that this version does not know
    ├── MissingPackage (ImportError)         a package that is not installed, for what was asked
    ├── StorageError (OSError)               the store refused or failed
    │   └── UncertainPut                     the store did not say whether it wrote
    ├── WriterFenced (OSError)               another writer has taken the shard of a MemWAL over
    ├── ShardSealed (ValueError, OSError)    a shard of a MemWAL that takes no more rows
    ├── MemWalEnded (ValueError, OSError)    a table that has no MemWAL any more, while a writer is open
    ├── WriterClosed (ValueError, OSError)   a writer that was closed, or that failed before
    ├── PartialPut (OSError)                 rows for several shards of a MemWAL, of which some have theirs
    ├── TableExists (ValueError, FileExistsError)     a table is there already
    ├── RefConflict (ValueError, OSError)    a tag or branch is there already, or others depend on it
    ├── CommitConflictError (OSError)        what programs written for pylance catch, and raise
    │   └── CommitConflict                   a commit of somebody else rules this one out
    │       └── RetryableCommitConflict      the same change can be made again, on the newest version
    └── CommitOutcomeUnknown (OSError)       nobody can say whether the commit took place

The text of an error says what was wrong, where, and what to do next; the same
facts are attributes (``path``, ``uri``, ``version``, ...). Names and values in it may
come from anywhere: what a terminal or a log would not show as it is stands there escaped.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

__all__ = [
    "CommitConflict",
    "CommitConflictError",
    "CommitOutcomeUnknown",
    "CorruptFile",
    "FilterSyntaxError",
    "IndexNotFound",
    "IndexRefused",
    "InvalidBase",
    "InvalidChange",
    "InvalidCleanup",
    "InvalidInput",
    "InvalidOption",
    "InvalidRef",
    "InvalidType",
    "LanceletError",
    "Lines",
    "MemWalEnded",
    "MergeRefused",
    "MissingFile",
    "MissingPackage",
    "NotFound",
    "NotSupported",
    "PartialPut",
    "PathNotAllowed",
    "RefConflict",
    "RefNotFound",
    "RetryableCommitConflict",
    "RowNotFound",
    "ShardSealed",
    "StorageError",
    "TableExists",
    "TableNotFound",
    "UncertainPut",
    "UnfitData",
    "UnknownColumn",
    "UnsafePath",
    "VersionNotFound",
    "WriterClosed",
    "WriterFenced",
    "printable",
]


class Lines(str):
    """A text for an error whose ends of lines are meant; those inside of names and values are escaped by :meth:`of`."""

    __slots__ = ()

    @classmethod
    def of(cls, *lines: str) -> Lines:
        """Each line escaped as :func:`printable` does."""
        return cls("\n".join(map(printable, lines)))


def printable(text: str) -> str:
    """A text on one line, with every character that would not be seen as it is escaped as Python does.

    Examples
    --------
    >>> print(printable("two\\nlines"))
    two\\nlines
    """
    if isinstance(text, Lines):
        return Lines.of(*text.split("\n"))
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text)


class LanceletError(Exception):
    """Base of every error raised by lancelet."""

    def __str__(self) -> str:
        return printable(self._text())

    def _text(self) -> str:
        """What happened, with names and values as they are."""
        return self.args[0] if len(self.args) == 1 and isinstance(self.args[0], str) else Exception.__str__(self)


class InvalidInput(LanceletError, ValueError):
    """An argument that makes no sense for this table."""


class InvalidType(InvalidInput, TypeError):
    """An argument of a type that is not accepted."""


class InvalidOption(InvalidInput, OverflowError, OSError):
    """An option out of its range, or of no use for this table."""


class RowNotFound(InvalidInput, IndexError, OverflowError, NotImplementedError, OSError):
    """A row that this version of the table does not have; pylance raises different built-ins for it in different calls."""


class IndexRefused(InvalidInput, RuntimeError):
    """An index that the table cannot have: its name is taken, or others would lose what it is to replace."""


class UnfitData(InvalidInput, OSError):
    """Rows that cannot be written: their columns are not those of the table, or no table can have such columns or values."""


class InvalidChange(InvalidInput, OSError):
    """A change of columns or metadata that this table cannot take."""


class InvalidCleanup(InvalidInput, OverflowError, OSError):
    """A cleanup that would remove what it must not, or that is asked for with numbers that make no sense."""


class MergeRefused(InvalidInput, OSError):
    """A merge that cannot be carried out: two rows for one, a match where none may be, clauses that do not go together."""


class InvalidRef(InvalidInput, OSError):
    """A name that no tag or branch can have."""


class InvalidBase(InvalidInput, OSError):
    """A base path that the table does not have, or cannot have."""


class UnknownColumn(InvalidInput, KeyError):
    """A column name that the schema does not have."""

    def __init__(self, name: str, known: Iterable[str], where: str = "the schema") -> None:
        self.name = name
        self.known = sorted(set(known))
        close = [one for one in self.known if one.lower() == name.lower()]
        close = close or difflib.get_close_matches(name, self.known, n=1, cutoff=0.5)
        hint = f"did you mean '{close[0]}'?" if close else f"it has: {', '.join(self.known[:20])}"
        self.message = f"column '{name}' is not in {where}; {hint}"
        super().__init__(self.message)

    def _text(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (type(self), self.message, self.__dict__.copy())


class FilterSyntaxError(InvalidInput):
    """A filter or expression that does not parse; ``position`` is the 0-based offset in ``text``."""

    def __init__(self, text: str, position: int | None, reason: str) -> None:
        self.text = text
        self.position = position
        self.reason = reason
        at: list[str] = []
        if position is not None:
            before = " " * len(printable(text[:position]))
            at = [f"  {text}", f"  {before}^"]
            reason = f"{reason} at character {position + 1}"
        super().__init__(Lines.of(f"cannot parse {text!r}: {reason}", *at))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.text, self.position, self.reason)


class NotFound(LanceletError, ValueError, OSError):
    """The thing asked for does not exist."""


class TableNotFound(NotFound, FileNotFoundError):
    """There is no table at this URI."""

    def __init__(self, uri: str, reason: str = "it has no _versions/ with a manifest") -> None:
        self.uri = uri
        self.reason = reason
        super().__init__(f"Dataset at path {uri} was not found: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.uri, self.reason)

    def _text(self) -> str:
        return f"Dataset at path {self.uri} was not found: {self.reason}"


class VersionNotFound(NotFound):
    """The table has no such version (never written, or cleaned up)."""

    def __init__(self, uri: str, version: int | str, reason: str) -> None:
        self.uri = uri
        self.version = version
        self.reason = reason
        super().__init__(f"version {version} of {uri} was not found: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.uri, self.version, self.reason)


class RefNotFound(NotFound):
    """The table has no such tag or branch."""


class IndexNotFound(NotFound, KeyError, RuntimeError):
    """The table has no index with this name."""


class MissingFile(LanceletError, FileNotFoundError):
    """A file that the table refers to is gone."""

    def __init__(self, path: str, reason: str = "") -> None:
        self.path = path
        self.reason = reason
        LanceletError.__init__(self, path, reason)

    def _text(self) -> str:
        return f"file {self.path} is missing" + (f": {self.reason}" if self.reason else "")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason)


class CorruptFile(LanceletError, OSError):
    """Bytes that cannot be what they claim to be; names the file, the place in it and the reason."""

    def __init__(self, path: str, reason: str, place: str = "") -> None:
        self.path = path
        self.reason = reason
        self.place = place
        LanceletError.__init__(self, path, reason, place)

    def _text(self) -> str:
        return f"corrupt file {self.path}{', ' + self.place if self.place else ''}: {self.reason}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason, self.place)


class UnsafePath(CorruptFile):
    """A path inside a manifest that leaves the table."""


class NotSupported(LanceletError, NotImplementedError, OSError):
    """A feature, flag or encoding that this version of lancelet does not know."""


class MissingPackage(LanceletError, ImportError):
    """Something that was asked for needs a package that is not installed."""


class StorageError(LanceletError, OSError):
    """The object store refused or failed."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        LanceletError.__init__(self, path, reason)

    def _text(self) -> str:
        return f"cannot access {self.path}: {self.reason}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason)


class UncertainPut(StorageError):
    """The store failed while it wrote an object and did not say whether the object is there now."""


class PathNotAllowed(LanceletError, PermissionError):
    """A table refers to a place that its reader did not allow, or a cloud that its reader did not name."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        LanceletError.__init__(self, path, reason)

    def __str__(self) -> str:
        return f"{self.path!r} is not opened: {self.reason}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason)


class WriterFenced(LanceletError, OSError):
    """Another writer claimed the shard of a MemWAL. What was acknowledged is with it; what was not may be or not."""

    def __init__(self, place: str, epoch: int, stored: int) -> None:
        self.place = place
        self.epoch = epoch
        """That of the writer."""
        self.stored = stored
        """That of the one who has the shard now."""
        LanceletError.__init__(self, place, epoch, stored)

    def _text(self) -> str:
        return (
            f"the writer of {self.place} was fenced: local epoch {self.epoch} < stored epoch {self.stored}, another writer has "
            "claimed the shard since. Rows that were acknowledged are safe with it; open a new writer only if this one is "
            "to have the shard again"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.place, self.epoch, self.stored)


class MemWalEnded(LanceletError, ValueError, OSError):
    """A table lost its MemWAL while a writer was open: by an overwrite, a restored version, or a dropped index."""

    def __init__(self, place: str, version: int) -> None:
        self.place = place
        self.version = version
        LanceletError.__init__(self, place, version)

    def _text(self) -> str:
        return (
            f"version {self.version} of the table has no MemWAL any more (it was overwritten, restored, or the index "
            f"dropped), so that nobody reads what this writer has put to {self.place} and what was not compacted; call "
            "initialize_mem_wal(), open another writer, and put these rows again"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.place, self.version)


class ShardSealed(LanceletError, ValueError, OSError):
    """A shard of a MemWAL that was sealed: it is read and compacted, and takes no more rows."""

    def __init__(self, place: str) -> None:
        self.place = place
        LanceletError.__init__(self, place)

    def _text(self) -> str:
        return (
            f"the shard {self.place} is sealed and takes no more rows; write to another shard: a writer() of the table that is "
            "opened after compact_mem_wal() finds one by itself"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.place,)


class WriterClosed(LanceletError, ValueError, OSError):
    """A writer that was closed, or that cannot go on after an error."""


class PartialPut(LanceletError, OSError):
    """Rows for several shards of a MemWAL, of which some have theirs and others may not; the cause tells what kept these out."""

    def __init__(self, durable: Sequence[str], failed: Sequence[str], reason: str) -> None:
        self.durable = tuple(durable)
        """Shards in whose logs the rows are."""
        self.failed = tuple(failed)
        """Those of which this is not known."""
        self.reason = reason
        LanceletError.__init__(self, durable, failed, reason)

    def _text(self) -> str:
        return (
            f"the rows for shard {', '.join(self.durable)} are in the log, and those for shard {', '.join(self.failed)} are not, as "
            f"far as is known: {self.reason}. Open a new writer and put the rows again: with a primary key, those that are there "
            "are replaced by the same ones"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.durable, self.failed, self.reason)


class TableExists(LanceletError, ValueError, FileExistsError):
    """A new table was to be made where there is one."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        LanceletError.__init__(self, uri)

    def _text(self) -> str:
        return f"Dataset already exists: {self.uri}; choose the mode append or overwrite, or another place"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.uri,)


class RefConflict(LanceletError, ValueError, OSError):
    """A tag or branch of this name is there already, or cannot go away since others depend on it."""


class CommitConflictError(LanceletError, OSError):
    """A commit that lost against another one, under pylance's name. Those of lancelet are a :class:`CommitConflict`."""

    def __init__(self, message: str = "", retryable: bool = True) -> None:
        LanceletError.__init__(self, message)
        self.retryable = retryable
        """Whether the same change can be made again, on the newest version."""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.retryable)


class CommitConflict(CommitConflictError):
    """Another commit, made since the version that this one was based on, rules this one out."""

    retryable = False

    def __init__(self, uri: str, version: int, reason: str) -> None:
        self.uri = uri
        self.version = version
        """The version that is in the way."""
        self.reason = reason
        LanceletError.__init__(self, uri, version, reason)

    def _text(self) -> str:
        return f"cannot commit to {self.uri}: {self.reason}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.uri, self.version, self.reason)


class RetryableCommitConflict(CommitConflict):
    """A conflict that goes away when the change is made again on the newest version."""

    retryable = True


class CommitOutcomeUnknown(LanceletError, OSError):
    """The store failed during a commit, and neither its success nor its failure could be established.

    The files of the change are kept, since the new version may refer to them.
    """

    def __init__(self, uri: str, version: int, uuid: str, reason: str) -> None:
        self.uri = uri
        self.version = version
        """The version that was being written."""
        self.uuid = uuid
        """Of the transaction; the commit took place if that version has it."""
        self.reason = reason
        LanceletError.__init__(self, uri, version, uuid, reason)

    def _text(self) -> str:
        return (
            f"it is not known whether version {self.version} of {self.uri} was committed: {self.reason}; when the store "
            f"answers again, the commit took place if the transaction of that version is {self.uuid}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.uri, self.version, self.uuid, self.reason)


def _restore(kind: type[UnknownColumn], message: str, state: dict[str, object]) -> UnknownColumn:
    error = kind.__new__(kind, message)
    error.__dict__.update(state)
    return error
