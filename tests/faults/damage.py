"""Ways to damage a file, each a small picklable value, and the child process that reads the result.

Every damage is applied to a fresh copy (a new inode, so that nothing mapped
before changes), the table is read in all the ways there are, and each reading
must end in one of two ways: an error of lancelet's own tree, or Arrow data that
is sound. A crash, a hang, a wild allocation or a foreign exception is a finding.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from lancelet.errors import LanceletError

HERE = Path(__file__).parent
FINDINGS = HERE.parents[1] / "build" / "findings"
LIMIT_BYTES = 3 * 2**30
"""Address space a child may use: a lying length of gigabytes becomes a MemoryError, which is a finding."""

PATTERNS = (b"\xff" * 8, b"\x00" * 8, (2**60).to_bytes(8, "little"), b"\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x01")


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes from ``at`` on are replaced by ``patch`` (hex), or the file ends there when ``patch`` is None."""

    at: int
    patch: str | None

    def apply(self, data: bytes) -> bytes:
        if self.patch is None:
            return data[: self.at]
        patch = bytes.fromhex(self.patch)
        return data[: self.at] + patch + data[self.at + len(patch) :]


def flips(data: bytes, count: int, seed: int) -> list[Damage]:
    """Single bits: a third anywhere, a third in the last kilobytes, where the metadata is, a third at the very end."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        reach = (len(data), min(len(data), 4096), min(len(data), 300))[number % 3]
        at = len(data) - 1 - rng.randrange(reach)
        found.append(Damage(at, bytes([data[at] ^ (1 << rng.randrange(8))]).hex()))
    return found


def patches(data: bytes, count: int, seed: int) -> list[Damage]:
    """Lengths and offsets that lie: extreme numbers over whatever stood there."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        patch = PATTERNS[number % len(PATTERNS)]
        reach = (len(data), min(len(data), 4096))[number % 2]
        at = max(len(data) - len(patch) - rng.randrange(reach), 0)
        found.append(Damage(at, patch[: len(data) - at].hex()))
    return found


def truncations(data: bytes, count: int, seed: int) -> list[Damage]:
    """Files that end too early: at once, inside the footer, anywhere."""
    rng = random.Random(seed)
    places = {0, 1, 4, 7, 8, 15, 16, 39, 40, *(len(data) - back for back in (1, 2, 4, 8, 9, 16, 17, 40, 41))}
    places |= {rng.randrange(len(data)) for _ in range(count)}
    return [Damage(at, None) for at in sorted(place for place in places if 0 <= place < len(data))]


def all_sorts(data: bytes, count: int, seed: int) -> list[Damage]:
    """So many flips, half as many lies, and ends that come too early."""
    return [*flips(data, count, seed), *patches(data, count // 2, seed), *truncations(data, count // 8, seed)]


def foreign_errors(victims: Iterable[Path], count: int, seed: int, read: Callable[[], None]) -> list[str]:
    """Read once for each damage of each file, in this process: errors that are not lancelet's own. Files are sound afterwards."""
    found = []
    for victim in victims:
        intact = victim.read_bytes()
        for damage in all_sorts(intact, count, seed):
            _put(victim, damage.apply(intact))
            try:
                read()
            except LanceletError:
                continue
            except Exception as error:
                found.append(f"{victim.name} {damage}: {error!r}")
            finally:
                _put(victim, intact)
    read()
    return found


def _put(victim: Path, data: bytes) -> None:
    """Another file under the name: the one before may still be mapped."""
    other = victim.with_suffix(".new")
    other.write_bytes(data)
    other.replace(victim)


def findings(
    table: Path,
    victim: Path,
    damages: list[Damage],
    *,
    columns: list[str] | None = None,
    in_memory: bool = False,
    seconds: int = 300,
) -> list[str]:
    """Read the table once for each damage of ``victim`` in a child process; what went wrong, in words.

    The file is mapped, or read from the memory store (``in_memory``), as from any object store. Where a damage is met
    with every column alike, some ``columns`` do.
    """
    job: dict[str, object] = {
        "table": str(table),
        "victim": str(victim),
        "limit": LIMIT_BYTES,
        "columns": columns,
        "in_memory": in_memory,
    }
    environment = dict(os.environ)
    sanitized = os.environ.get("LANCELET_SANITIZED")
    if sanitized:
        job["limit"] = 0
        environment |= sanitizer(Path(sanitized).resolve())
    found: list[str] = []
    guilty: list[Damage] = []
    while damages:
        job["damages"] = [asdict(damage) for damage in damages]
        lines, reason = _reader(environment).run(job, seconds)
        for line in lines:
            if line.startswith("FIND "):
                found.append(line[5:])
                guilty.append(Damage(**json.loads(line[5:])["damage"]))
        done = sum(line.startswith("DONE") for line in lines)
        if reason is None:
            break
        found.append(f"{damages[done]}: {reason}")
        guilty.append(damages[done])
        damages = damages[done + 1 :]
    if guilty:
        found.insert(0, f"the first damaged table is kept in {_keep(table, victim, guilty[0])}")
    return found


def _keep(table: Path, victim: Path, damage: Damage) -> Path:
    """A copy of the damaged table: names and times in it are new in every run, so a seed alone would not bring it back."""
    intact = victim.read_bytes()
    kept = FINDINGS / hashlib.sha256(damage.apply(intact)).hexdigest()[:12]
    shutil.copytree(table, kept, dirs_exist_ok=True)
    (kept / victim.relative_to(table)).write_bytes(damage.apply(intact))
    return kept


class Reader:
    """The process that forks for each job; it is started with the first and ends with this one."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "reading_child.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
            # One signal ends it together with its job.
            start_new_session=True,
        )
        atexit.register(self.stop)

    def run(self, job: dict[str, object], seconds: int) -> tuple[list[str], str | None]:
        """The lines of a job, and why it ended early if it did."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._errors.seek(0)
        self._errors.truncate()
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        late = threading.Event()

        def end() -> None:
            late.set()
            self.stop()

        timer = threading.Timer(seconds, end)
        timer.start()
        lines = []
        code = "nothing"
        for line in self._process.stdout:
            if line.startswith("EXIT "):
                code = line.split()[1]
                break
            lines.append(line.rstrip("\n"))
        timer.cancel()
        if late.is_set():
            return lines, f"no end after {seconds} s"
        self._errors.seek(0)
        return lines, None if code == "0" else f"the process died with {code}: {self._errors.read()[-3000:]}"

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


_READERS: dict[str, Reader] = {}


def _reader(environment: dict[str, str]) -> Reader:
    key = environment.get("LD_PRELOAD", "")
    if key not in _READERS or not _READERS[key].alive:
        _READERS[key] = Reader(environment)
    return _READERS[key]


def sanitizer(package: Path) -> dict[str, str]:
    runtime = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return {
        "PYTHONPATH": str(package),
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0:max_allocation_size_mb=2048:allocator_may_return_null=1:abort_on_error=0",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "PYTHONMALLOC": "malloc",
    }
