"""The manifest store in DynamoDB, as Lance keeps it (spec table-format.md 7.7). Needs the extra ``lancelet[dynamodb]``.

::

    base_uri (S)   partition key: path of the table inside the bucket
    version (N)    sort key
    path (S)       manifest, from the bucket's root
    size (N)       bytes of the manifest
    committer (S)  who wrote the entry
"""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lancelet.errors import InvalidInput, LanceletError, NotSupported, StorageError, UncertainPut
from lancelet.table.registers.protocol import RegisteredVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COMMITTER = "lancelet"
_ABSENT = "attribute_not_exists(base_uri) AND attribute_not_exists(version)"
_PRESENT = "attribute_exists(base_uri) AND attribute_exists(version)"
_CONFLICT = "ConditionalCheckFailedException"
_ENDPOINTS = ("dynamodb_endpoint", "ddb_endpoint")
# What boto3 calls the settings, and what storage options call them.
_SETTINGS = {
    "aws_access_key_id": ("aws_access_key_id", "access_key_id"),
    "aws_secret_access_key": ("aws_secret_access_key", "secret_access_key"),
    "aws_session_token": ("aws_session_token", "aws_token", "session_token", "token"),
    "region_name": ("aws_region", "region", "aws_default_region", "default_region"),
}


class DynamoManifestStore:
    """A manifest store in the DynamoDB table ``name``."""

    can_change = True

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        if not name:
            raise InvalidInput("the manifest store needs the name of its table: s3+ddb://bucket/path?ddbTableName=name")
        self.name = name
        self._options = dict(options)

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "_options": self._options}

    @cached_property
    def _client(self) -> Any:
        try:
            boto3 = importlib.import_module("boto3")
        except ImportError:
            raise NotSupported(
                f"the manifest store dynamodb://{self.name} needs the package boto3: pip install 'lancelet[dynamodb]'"
            ) from None
        options = {key.lower(): value for key, value in self._options.items()}

        def chosen(keys: tuple[str, ...]) -> str | None:
            return next((options[key] for key in keys if key in options), None)

        settings = {name: chosen(keys) for name, keys in _SETTINGS.items()}
        return boto3.client("dynamodb", endpoint_url=chosen(_ENDPOINTS), **settings)

    def get(self, base: str, version: int) -> RegisteredVersion | None:
        key = {"base_uri": {"S": base}, "version": {"N": str(version)}}
        with self._failures():
            answer = self._client.get_item(TableName=self.name, Key=key, ConsistentRead=True)
        return self._entry(answer["Item"]) if "Item" in answer else None

    def latest(self, base: str) -> RegisteredVersion | None:
        with self._failures():
            answer = self._client.query(
                TableName=self.name,
                KeyConditionExpression="base_uri = :base",
                ExpressionAttributeValues={":base": {"S": base}},
                ScanIndexForward=False,
                Limit=1,
                ConsistentRead=True,
            )
        return self._entry(answer["Items"][0]) if answer["Items"] else None

    def put_if_absent(self, base: str, entry: RegisteredVersion) -> bool:
        return self._put(base, entry, _ABSENT)

    def put_if_present(self, base: str, entry: RegisteredVersion) -> None:
        self._put(base, entry, _PRESENT)

    def delete(self, base: str, version: int) -> None:
        key = {"base_uri": {"S": base}, "version": {"N": str(version)}}
        with self._failures(writing=True):
            self._client.delete_item(TableName=self.name, Key=key)

    def _put(self, base: str, entry: RegisteredVersion, condition: str) -> bool:
        item = {
            "base_uri": {"S": base},
            "version": {"N": str(entry.version)},
            "path": {"S": entry.path},
            "committer": {"S": COMMITTER},
        }
        if entry.size is not None:
            item["size"] = {"N": str(entry.size)}
        with self._failures(writing=True):
            try:
                self._client.put_item(TableName=self.name, Item=item, ConditionExpression=condition)
            except self._client.exceptions.ConditionalCheckFailedException:
                return False
        return True

    def _entry(self, item: Mapping[str, Mapping[str, str]]) -> RegisteredVersion:
        try:
            size = int(item["size"]["N"]) if "size" in item else None
            return RegisteredVersion(int(item["version"]["N"]), item["path"]["S"], size)
        except (KeyError, ValueError) as error:
            raise StorageError(f"dynamodb://{self.name}", f"has an entry that is none: {error!r}") from None

    @contextmanager
    def _failures(self, *, writing: bool = False) -> Iterator[None]:
        """Turn what boto3 raises into our errors."""
        exceptions = importlib.import_module("botocore.exceptions") if self._client else None
        assert exceptions is not None
        place = f"dynamodb://{self.name}"
        try:
            yield
        except LanceletError:
            raise
        except exceptions.ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
            if writing and status >= 500:
                raise UncertainPut(place, str(error)) from None
            raise StorageError(place, str(error)) from None
        except exceptions.BotoCoreError as error:
            # A time-out or a broken connection: the request may have been carried out all the same.
            if writing and isinstance(error, exceptions.HTTPClientError):
                raise UncertainPut(place, str(error)) from None
            raise StorageError(place, str(error)) from None
