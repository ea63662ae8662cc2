"""How errors read, whatever they are about."""

from __future__ import annotations

import pickle

import pytest

from lancelet import errors
from lancelet.commit import CommitConflictError

ODD = "a\x1b[31mb\nc\x00d\u202ee\ud800"
SHOWN = r"a\x1b[31mb\nc\x00d\u202ee\ud800"
MADE = [
    errors.InvalidInput(f"the name {ODD} is odd"),
    errors.UnknownColumn(ODD, [ODD + "x"]),
    errors.FilterSyntaxError(ODD, 9, ODD),
    errors.TableNotFound(ODD, ODD),
    errors.VersionNotFound(ODD, 3, ODD),
    errors.IndexNotFound(ODD),
    errors.MissingFile(ODD, ODD),
    errors.CorruptFile(ODD, ODD, ODD),
    errors.NotSupported(ODD),
    errors.StorageError(ODD, ODD),
    errors.TableExists(ODD),
    errors.RefConflict(ODD),
    errors.CommitConflict(ODD, 3, ODD),
    errors.RetryableCommitConflict(ODD, 3, ODD),
    errors.CommitOutcomeUnknown(ODD, 3, ODD, ODD),
    CommitConflictError(ODD, False),
]


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_what_cannot_be_seen_is_escaped(error: errors.LanceletError) -> None:
    for shown in (str(error), str(pickle.loads(pickle.dumps(error)))):
        assert SHOWN in shown
        shown.encode()
        assert all(line.isprintable() for line in shown.split("\n"))
    assert ("\n" in str(error)) == isinstance(error, errors.FilterSyntaxError)


def test_the_place_of_a_mistake_is_below_it() -> None:
    lines = str(errors.FilterSyntaxError("\tx = \x00'", 5, "odd")).splitlines()
    assert lines == [r"""cannot parse "\tx = \x00'": odd at character 6""", r"  \tx = \x00'", "        ^"]


def test_a_conflict_as_programs_for_pylance_make_it() -> None:
    assert (str(CommitConflictError()), CommitConflictError().retryable) == ("", True)
    assert not pickle.loads(pickle.dumps(CommitConflictError("lost", False))).retryable
    for kind in (errors.CommitConflict, errors.RetryableCommitConflict):
        error = kind("t", 3, "why")
        assert isinstance(error, CommitConflictError)
        assert pickle.loads(pickle.dumps(error)).retryable == (kind is errors.RetryableCommitConflict)
