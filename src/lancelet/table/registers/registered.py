"""A table's folder together with the register of the table's versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancelet.table.registers.protocol import TableRegister

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lancelet.store import ByteSource, ObjectInfo, Sink, Store
    from lancelet.store.source import Counters

_TREE = "tree/"


class RegisteredStore:
    """A store whose versions are in the register that it was given; all else is as in the folder's own store."""

    __slots__ = ("_folder", "_root", "register")

    def __init__(self, folder: Store, register: TableRegister, root: RegisteredStore | None = None) -> None:
        self._folder = folder
        self.register = register
        self._root = root

    def __reduce__(self) -> tuple[object, ...]:
        return RegisteredStore, (self._folder, self.register, self._root)

    def __repr__(self) -> str:
        return f"RegisteredStore({self._folder!r}, {self.register!r})"

    @property
    def root(self) -> RegisteredStore:
        """The store of the table; of a branch, that of the table it belongs to."""
        return self if self._root is None else self._root

    def around(self, folder: Store) -> RegisteredStore:
        """The same register with another store of the folder."""
        return RegisteredStore(folder, self.register, self._root)

    def child(self, path: str) -> Store:
        """The store of a folder below this one; that of a branch has a register too."""
        below = self._folder.child(path)
        if not path.startswith(_TREE):
            return below
        return RegisteredStore(below, self.register.of_branch(path.removeprefix(_TREE)), self.root)

    @property
    def uri(self) -> str:
        return self._folder.uri

    @property
    def options(self) -> Mapping[str, str]:
        return self._folder.options

    @property
    def counters(self) -> Counters:
        return self._folder.counters

    @property
    def is_local(self) -> bool:
        return self._folder.is_local

    @property
    def lists_in_order(self) -> bool:
        return self._folder.lists_in_order

    @property
    def beside(self) -> Any:
        """How a store in memory opens another folder of the same objects; None for other stores."""
        return getattr(self._folder, "beside", None)

    def join(self, path: str) -> str:
        return self._folder.join(path)

    def open(self, path: str, size: int | None = None) -> ByteSource:
        return self._folder.open(path, size)

    def read_all(self, path: str) -> bytes:
        return self._folder.read_all(path)

    def read_tail(self, path: str, nbytes: int) -> tuple[bytes, int]:
        return self._folder.read_tail(path, nbytes)

    def size_of(self, path: str) -> int:
        return self._folder.size_of(path)

    def exists(self, path: str) -> bool:
        return self._folder.exists(path)

    def list_objects(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self._folder.list_objects(prefix)

    def list_names(self, prefix: str) -> Iterable[str]:
        return self._folder.list_names(prefix)

    def list_folders(self, prefix: str = "") -> list[str]:
        return self._folder.list_folders(prefix)

    def put(self, path: str, data: bytes) -> None:
        self._folder.put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._folder.put_if_absent(path, data)

    def put_new(self, path: str, data: bytes) -> None:
        self._folder.put_new(path, data)

    def put_hint(self, path: str, data: bytes) -> None:
        self._folder.put_hint(path, data)

    def open_sink(self, path: str) -> Sink:
        return self._folder.open_sink(path)

    def settle(self, paths: Sequence[str]) -> None:
        self._folder.settle(paths)

    def copy(self, source: str, target: str) -> None:
        self._folder.copy(source, target)

    def copy_from(self, source: Store, path: str, target: str, size: int | None = None) -> bool:
        return self._folder.copy_from(_folder_of(source), path, target, size)

    def delete(self, path: str) -> None:
        self._folder.delete(path)

    def delete_many(self, paths: Sequence[str], *, lasting: bool = False) -> list[str]:
        return self._folder.delete_many(paths, lasting=lasting)

    def remove_folder(self, folder: str, spared: Collection[str] = ()) -> None:
        self._folder.remove_folder(folder, spared)


def registered_like(other: Store, store: Store) -> Store:
    """The store of the same folder as another one, with the same register if that has any."""
    return other.around(store) if isinstance(other, RegisteredStore) else store


def _folder_of(store: Store) -> Store:
    """Stores copy by their own means between those that they know."""
    return store._folder if isinstance(store, RegisteredStore) else store
