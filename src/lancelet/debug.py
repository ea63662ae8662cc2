"""What a table's metadata say, as text to read: for a look at a table that behaves oddly."""

from __future__ import annotations

from pprint import pformat

from google.protobuf.text_format import MessageToString

from lancelet._api.fragment_metadata import FragmentMetadata
from lancelet.dataset import LanceDataset
from lancelet.errors import InvalidType
from lancelet.format.schema import Field
from lancelet.fragment import LanceFragment

__all__ = ["format_fragment", "format_manifest", "format_schema", "list_transactions"]


def format_schema(dataset: LanceDataset) -> str:
    """The columns with their field ids, types and metadata.

    Examples
    --------
    >>> import lancelet
    >>> print(format_schema(lancelet.write_dataset({"at": [{"x": 1}]}, "memory://docs/fields")))
    0 at: struct
      1 x: int64
    """
    return "\n".join(
        line for field in _checked(dataset).table.snapshot.manifest.schema.fields for line in _lines(field, "")
    )


def format_manifest(dataset: LanceDataset) -> str:
    """All that the manifest of this version says, as protobuf's text."""
    manifest = _checked(dataset).table.snapshot.manifest
    return f"# {manifest.path}\n{MessageToString(manifest.message)}"


def format_fragment(fragment: FragmentMetadata | LanceFragment, dataset: LanceDataset) -> str:
    """All that the manifest says of a fragment, with the fields that each of its files has.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"id": [1, 2]}, "memory://docs/pieces")
    >>> print(format_fragment(dataset.get_fragments()[0], dataset).splitlines()[-1].strip())
    0 id: int64
    """
    found = fragment.metadata if isinstance(fragment, LanceFragment) else fragment
    if not isinstance(found, FragmentMetadata):
        raise InvalidType(f"a fragment is a LanceFragment or its metadata, not {type(fragment).__name__}")
    fields = {field.id: field for field in _checked(dataset).table.snapshot.manifest.schema.walk()}
    shown = [pformat(found, width=120, sort_dicts=False)]
    for file in found.files:
        shown.append(f"{file.path}:")
        shown += [
            f"  {number} {fields[number].name}: {fields[number].logical_type}"
            if number in fields
            else f"  {number} (dropped)"
            for number in file.fields
        ]
    return "\n".join(shown)


def list_transactions(dataset: LanceDataset, /, max_transactions: int = 10) -> list[str]:
    """How this version and those before it came about, the newest first.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"id": [1, 2]}, "memory://docs/past")
    >>> "Overwrite" in list_transactions(dataset)[0]
    True
    """
    found = _checked(dataset).get_transactions(max_transactions)
    return [pformat(transaction, width=120, sort_dicts=False) for transaction in found if transaction is not None]


def _checked(dataset: LanceDataset) -> LanceDataset:
    if not isinstance(dataset, LanceDataset):
        raise InvalidType(f"a dataset is needed, not {type(dataset).__name__}")
    return dataset


def _lines(field: Field, indent: str) -> list[str]:
    """A field and those inside of it."""
    required = "" if field.nullable else ", not null"
    metadata = f" {dict(field.metadata)}" if field.metadata else ""
    inner = [line for child in field.children for line in _lines(child, indent + "  ")]
    return [f"{indent}{field.id} {field.name}: {field.logical_type}{required}{metadata}", *inner]
