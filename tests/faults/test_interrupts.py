"""Ctrl-C at any moment: the process goes on or ends at once, and nothing is left behind."""

from __future__ import annotations

import dis
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import lancelet
from drawing import SEED, examples
from faults.operations import OPERATIONS, check_table, prepare

# A file that is opened for reading when the interrupt comes is closed as soon as it is collected, and Python says so.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <_io.FileIO:pytest.PytestUnraisableExceptionWarning"
)

PACKAGE = str(Path(lancelet.__file__).parent)
SMALL = 60
LARGE = 20_000
HANG = 20.0


@cache
def moments(code: CodeType) -> frozenset[int]:
    """Where Python looks for signals: on entry to a function, after calls, and when a loop begins anew."""
    found, before = set(), ""
    for step in dis.get_instructions(code):
        if before in ("CALL", "RESUME", "JUMP_BACKWARD", "CALL_FUNCTION_EX"):
            found.add(step.offset)
        before = step.opname
    return frozenset(found)


class Interrupter:
    """Sends an interrupt at the n-th moment of our own code in this thread, and counts moments."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.count = 0

    def __enter__(self) -> Interrupter:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "opcode" and frame.f_lasti in moments(frame.f_code):
            self.count += 1
            if self.count == self.at:
                signal.raise_signal(signal.SIGINT)
        return self._step


def open_files() -> set[str]:
    """What descriptors of this process refer to."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{entry.name}:{entry.readlink()}")
        except FileNotFoundError:
            continue
    return found


def remembered(folder: Path) -> str:
    """What checkpoints say about files that they will need when the work is taken up again."""
    texts = []
    for path in folder.glob("*.checkpoint"):
        with closing(sqlite3.connect(path)) as connection:
            texts += [text for (text,) in connection.execute("SELECT data FROM fragments")]
    return " ".join(texts)


def check_folder(folder: Path, name: str) -> None:
    """Tables and nothing beside them; half a cleanup leaves files for the next one, and a checkpoint those that it knows."""
    kept = remembered(folder)
    tables = [path.parent for path in folder.rglob("_versions") if ".gone" not in str(path)]
    for where in tables:
        if kept or name == "cleanup":
            findings = lancelet.dataset(where).verify(deep=True).findings
            orphans = [Path(finding.place).name for finding in findings if finding.kind == "orphan file"]
            assert [finding for finding in findings if finding.kind not in ("hint", "orphan file")] == []
            assert name == "cleanup" or all(orphan in kept for orphan in orphans)
        else:
            check_table(where)
    for where in folder.iterdir():
        assert where.suffix in (".checkpoint", ".gone", ".names") or where in tables


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """A shell starts what goes to the background with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def template(memory: Path) -> Path:
    where = memory / "small"
    prepare(str(where), SMALL)
    return where


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files go; none is left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def interrupt_at(folder: Path, template: Path, name: str, at: int | None) -> int:
    """Do an operation on a copy of a table and interrupt it; returns the moments that it has."""
    where = folder / "t"
    shutil.copytree(template, where)
    handler = signal.getsignal(signal.SIGINT)
    before = open_files()
    interrupter = Interrupter(at)
    try:
        with interrupter:
            OPERATIONS[name](str(where), SMALL)
    except KeyboardInterrupt:
        assert at is not None
    else:
        assert at is None or interrupter.count < at, "the interrupt got lost"
    assert signal.getsignal(signal.SIGINT) is handler
    opened = {file for file in open_files() - before if str(folder) in file and "(deleted)" in file}
    assert not opened
    check_folder(folder, name)
    # The process can go on.
    assert lancelet.dataset(where).to_table().num_rows == lancelet.dataset(where).count_rows(
        "x is null or x is not null"
    )
    shutil.rmtree(folder)
    return interrupter.count


def warm_up(folder: Path, template: Path, name: str) -> None:
    """What is imported on first use would be traced too, which takes most of the time."""
    shutil.copytree(template, folder / "t")
    OPERATIONS[name](str(folder / "t"), SMALL)
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.spread(0.5, each=False)
def test_an_interrupt_at_some_moments(folder: Path, temporary: Path, template: Path, name: str) -> None:
    warm_up(folder / "warm", template, name)
    count = interrupt_at(folder / "whole", template, name, None)
    interrupt_at(folder / "cut", template, name, random.Random(name).randrange(1, count))


@pytest.mark.soak
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_at_many_moments(folder: Path, temporary: Path, template: Path, name: str) -> None:
    count = interrupt_at(folder / "whole", template, name, None)
    for at in random.Random(f"{name} {SEED}").sample(range(1, count), examples(15)):
        interrupt_at(folder / str(at), template, name, at)


def interrupted_program(folder: Path, template: Path, name: str, delay: float, rows: int) -> float:
    """Run an operation again and again in a process that is interrupted after a while; how long that takes to end."""
    where, temporary = folder / "t", folder.parent / "temporary" / folder.name
    shutil.copytree(template, where)
    temporary.mkdir(parents=True)
    settings = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    program = subprocess.Popen(
        [sys.executable, "-m", "faults.operations", name, where, str(rows)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=settings,
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n", program.communicate()[1]
        time.sleep(delay)
        program.send_signal(signal.SIGINT)
        sent = time.monotonic()
        _, errors = program.communicate(timeout=HANG)
        took = time.monotonic() - sent
    finally:
        program.kill()
        program.wait()
    assert program.returncode == -signal.SIGINT, errors
    assert errors.rstrip().endswith("KeyboardInterrupt"), errors
    assert list(temporary.iterdir()) == []
    check_folder(folder, name)
    shutil.rmtree(folder)
    return took


def test_a_program_ends(folder: Path, template: Path) -> None:
    interrupted_program(folder / "compact", template, "compact", 0.1, SMALL)


@pytest.mark.soak
def test_many_programs_end(folder: Path) -> None:
    """Programs of all operations, one after the other."""
    template = folder / "large"
    prepare(str(template), LARGE)
    drawn = random.Random(SEED)
    names = list(OPERATIONS)
    times: list[tuple[float, str]] = []
    for number in range(examples(15)):
        name = names[number % len(names)]
        took = interrupted_program(folder / str(number), template, name, drawn.uniform(0, 0.7), LARGE)
        times.append((took, name))
        print(number, name, round(took, 3), flush=True)
    times.sort()
    print("median", times[len(times) // 2], "longest", times[-5:])
