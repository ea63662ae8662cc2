"""Lines of versions that a state machine changes: tables, their branches and clones, opened by lancelet or by pylance."""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import hypothesis.strategies as st
import lance
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, rule

import lancelet
from drawing import ANEW

ENGINES = st.sampled_from([lancelet, lance])
PICKS = st.integers(0, 11)


@dataclass
class Line:
    """One line of versions: a table, a branch of it, or a clone."""

    uri: str
    branch: str | None = None
    borrows: bool = False
    """Whether it began with an index whose files are another line's."""

    def open(self, engine: Any, version: int | None = None) -> Any:
        if self.branch is None:
            return engine.dataset(self.uri, version=version)
        return engine.dataset(self.uri).checkout_version((self.branch, version))


L = TypeVar("L", bound=Line)


class Lines(RuleBasedStateMachine, Generic[L]):
    """Rules are operations; each draws who does it, and on which line."""

    fragment_rows: tuple[int, int, int]
    """For compactions: few, some, all."""
    lines: list[L]
    stable: bool
    """Whether rows have stable ids."""

    def begin(self, seed: int) -> str:
        """A place for the first line."""
        self.folder = tempfile.TemporaryDirectory()
        self.chance = random.Random(seed)
        self.next = 0
        self.names = 0
        return f"{self.folder.name}/main"

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def _line(self, pick: int) -> L:
        return self.lines[pick % len(self.lines)]

    def _name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def _check(self, line: L) -> None:
        """What always holds."""
        raise NotImplementedError

    def _can_pylance_extend(self, line: L) -> bool:
        """pylance 14 looks for the index that it extends among the files of the other line."""
        return not line.borrows

    @rule(engine=ENGINES, pick=PICKS, size=st.integers(0, 2), later=st.booleans())
    def compact(self, engine: Any, pick: int, size: int, later: bool) -> None:
        line = self._line(pick)
        if engine is lance and line.borrows:
            # pylance 14 looks for the index that it rewrites among the files of the other line.
            return
        line.open(engine).optimize.compact_files(
            target_rows_per_fragment=self.fragment_rows[size],
            materialize_deletions_threshold=0.0,
            num_threads=1,
            defer_index_remap=later and not self.stable,
        )
        self._check(line)

    @rule(engine=ENGINES, pick=PICKS, merged=st.sampled_from([None, 0, 1, 3]), retrain=st.booleans())
    def extend_indices(self, engine: Any, pick: int, merged: int | None, retrain: bool) -> None:
        line = self._line(pick)
        if engine is lance and not self._can_pylance_extend(line):
            return
        options = {"retrain": True} if retrain else {} if merged is None else {"num_indices_to_merge": merged}
        line.open(engine).optimize.optimize_indices(**options)
        self._check(line)


def profile(count: int, steps: int) -> settings:
    """So many histories of so many steps; ``make soak`` draws anew each time."""
    return settings(
        max_examples=count,
        stateful_step_count=steps,
        deadline=None,
        derandomize=not ANEW,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        report_multiple_bugs=False,
    )
