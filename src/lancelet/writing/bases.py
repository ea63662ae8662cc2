"""Where new data files go: below the table, or into its base paths in turn (spec table-format.md 8.5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lancelet._naming.texts import check_text
from lancelet.errors import InvalidBase, InvalidType
from lancelet.store import open_store
from lancelet.store.location import SCHEME
from lancelet.table.manifest.manifest import BasePath
from lancelet.table.manifest.names import DATA_DIR

if TYPE_CHECKING:
    from lancelet.store import Store
    from lancelet.table.manifest.paths import Places

MAX_BASE_ID = 2**32 - 1


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A folder for data files."""

    store: Store
    path: str = DATA_DIR
    base_id: int | None = None
    """None: the table's own."""

    def file(self, name: str) -> str:
        """Path of a file in it, relative to the store."""
        return f"{self.path}/{name}" if self.path else name


def check_bases(bases: Sequence[BasePath]) -> tuple[BasePath, ...]:
    """The base paths as they are recorded: local paths are absolute, so that they mean the same everywhere."""
    return tuple(map(_checked, bases))


def numbered_bases(bases: Sequence[BasePath]) -> dict[int, BasePath]:
    """The base paths of a new table by id; those with the id 0 get the smallest free ones from 1 on."""
    found = check_bases(bases)
    taken = [base.id for base in found if base.id]
    if len(set(taken)) < len(taken):
        raise InvalidBase(f"Duplicate base path ID among {sorted(taken)}; base path ids must be unique")
    free = (number for number in range(1, MAX_BASE_ID) if number not in taken)
    numbered = [base if base.id else replace(base, id=next(free)) for base in found]
    return {base.id: base for base in numbered}


def find_base(reference: str, bases: Iterable[BasePath], uri: str) -> BasePath:
    """The base path with a name, or at a path."""
    known = list(bases)
    by_name = next((base for base in known if base.name == reference), None)
    if by_name is not None:
        return by_name
    place = plain_path(reference) if reference else ""
    by_path = next((base for base in known if base.path == reference or plain_path(base.path) == place), None)
    if by_path is None:
        listed = ", ".join(f"'{base.name}' at {base.path}" if base.name else base.path for base in known)
        raise InvalidBase(
            f"Base reference '{reference}' not found in available bases of {uri}: {listed or 'it has none'}"
        )
    return by_path


def target_folders(places: Places, names: Sequence[str], all_bases: bool | None) -> tuple[DataFolder, ...]:
    """The folders that new files go to in turn.

    ``names`` are names or paths of base paths; ``all_bases`` takes all of them, after the table itself if it is True.
    """
    uri, bases = places.store.uri, places.bases
    own = DataFolder(places.store)
    if all_bases is None and not names:
        return (own,)
    chosen = [find_base(name, bases.values(), uri) for name in names]
    if all_bases is not None:
        if names:
            raise InvalidBase("target_all_bases does not go with target_bases: the one takes all, the other some")
        chosen = [bases[number] for number in sorted(bases)]
        if not chosen and not all_bases:
            raise InvalidBase(f"{uri} has no base paths, so that target_all_bases=False leaves nowhere to write to")
    folders = [own] if all_bases else []
    for base in chosen:
        place = places.data_folder(base.id)
        folders.append(DataFolder(place.store, place.path, base.id))
    return tuple(folders)


def _checked(base: BasePath) -> BasePath:
    if not all(hasattr(base, name) for name in ("id", "name", "path", "is_dataset_root")):
        raise InvalidType(f"a base path is a DatasetBasePath, not {base!r}")
    path = str(base.path)
    check_text(path, "a base path")
    if base.name is not None:
        check_text(base.name, "the name of a base path")
    if not path or "\0" in path:
        raise InvalidBase(f"{path!r} is no base path: it is empty, or has a null character")
    if not 0 <= (base.id or 0) <= MAX_BASE_ID:
        raise InvalidBase(f"the id of a base path has 32 bits, {base.id} has not")
    if SCHEME.match(path) is None:
        path = open_store(path).uri
    return BasePath(path, base.name, bool(base.is_dataset_root), base.id or 0)


def plain_path(path: str) -> str:
    """Different spellings of one place as one.

    Examples
    --------
    >>> plain_path("file:///data/x/"), plain_path("s3://bucket/x/")
    ('/data/x', 's3://bucket/x')
    """
    scheme = SCHEME.match(path)
    if scheme is None or scheme[1].lower() == "file":
        return open_store(path).uri
    return path.rstrip("/")
