"""Storage options: the key names of object_store, sorted out for obstore.

One dictionary serves every store a table touches, so keys of the other kinds
are ignored; a key that no store knows is refused, since it is most likely a
misspelt one. ``aws_``, ``google_`` and ``azure_`` may be written before or left
off the keys of that store.

Base paths of a table share its options when they are in the same bucket. For others, and to be told apart::

    base_<id>.<key>       <key> for the base path with this id alone
    base_store_params     JSON: for a URI, the options that base paths there and below it have instead of all others
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lancelet.errors import InvalidInput
from lancelet.store.limit import KEYS as LIMIT_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

S3 = frozenset(
    [
        "access_key_id",
        "bucket",
        "bucket_name",
        "checksum_algorithm",
        "conditional_put",
        "container_credentials_relative_uri",
        "container_credentials_full_uri",
        "container_authorization_token_file",
        "copy_if_not_exists",
        "default_region",
        "disable_tagging",
        "disable_bulk_delete",
        "endpoint",
        "endpoint_url",
        "imdsv1_fallback",
        "metadata_endpoint",
        "region",
        "request_payer",
        "role_arn",
        "role_session_name",
        "s3_express",
        "secret_access_key",
        "server_side_encryption",
        "session_token",
        "skip_signature",
        "sse_bucket_key_enabled",
        "sse_customer_key_base64",
        "sse_kms_key_id",
        "token",
        "unsigned_payload",
        "virtual_hosted_style_request",
        "web_identity_token_file",
    ]
)
GCS = frozenset(
    [
        "service_account",
        "service_account_path",
        "service_account_key",
        "base_url",
        "bearer_token",
        "bucket",
        "bucket_name",
        "application_credentials",
        "skip_signature",
    ]
)
AZURE = frozenset(
    [
        "account_name",
        "account_key",
        "access_key",
        "master_key",
        "client_id",
        "client_secret",
        "credential_type",
        "tenant_id",
        "authority_id",
        "authority_host",
        "sas_key",
        "sas_token",
        "token",
        "bearer_token",
        "use_emulator",
        "use_fabric_endpoint",
        "encryption_key",
        "endpoint",
        "msi_endpoint",
        "identity_endpoint",
        "object_id",
        "msi_resource_id",
        "federated_token_file",
        "use_azure_cli",
        "skip_signature",
        "container_name",
        "disable_tagging",
        "fabric_token_service_url",
        "fabric_workload_host",
        "fabric_session_token",
        "fabric_cluster_identifier",
    ]
)
CLIENT = frozenset(
    [
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_max_frame_size",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_url",
        "proxy_ca_certificate",
        "proxy_excludes",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    ]
)
# Read by the table layer.
BASE_PARAMS = "base_store_params"
_OF_BASE = re.compile(r"base_([0-9]+)\.(.+)\Z")
TABLE = frozenset(["manifest_store", BASE_PARAMS, *LIMIT_KEYS])
_REGIONS = ("region", "default_region")
# Read by pylance itself rather than by its object stores; they tune that implementation, or only matter there.
PYLANCE = frozenset(
    [
        "client_max_retries",
        "client_retry_timeout",
        "download_retry_count",
        "expires_at_millis",
        "refresh_offset_millis",
        "new_table_data_storage_version",
        "new_table_enable_stable_row_ids",
    ]
)
KINDS: Mapping[str, tuple[str, frozenset[str]]] = {
    "s3": ("aws_", S3),
    "gs": ("google_", GCS),
    "az": ("azure_storage_", AZURE),
}
PREFIXES: Mapping[str, tuple[str, ...]] = {
    "s3": ("aws_",),
    "gs": ("google_",),
    "az": ("azure_storage_", "azure_"),
}
SWITCHES = frozenset(
    [
        "allow_http",
        "allow_invalid_certificates",
        "http1_only",
        "http2_only",
        "http2_keep_alive_while_idle",
        "randomize_addresses",
    ]
)


@dataclass(frozen=True, slots=True)
class ObstoreSettings:
    """Storage options as obstore wants them."""

    config: dict[str, str]
    client: dict[str, Any]
    retry: dict[str, Any]


def with_base_params(
    options: Mapping[str, str] | None, params: Mapping[str, Mapping[str, str]] | None
) -> dict[str, str]:
    """Options of a table that also know those of its base paths, given by their URIs."""
    merged = dict(options or {})
    if params:
        known = json.loads(merged.get(BASE_PARAMS, "{}"))
        given = {_plain(uri): {k: str(v) for k, v in entries.items()} for uri, entries in params.items()}
        merged[BASE_PARAMS] = json.dumps({**known, **given}, sort_keys=True)
    return merged


def base_params(options: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The options that callers gave for URIs of base paths."""
    params: dict[str, dict[str, str]] = json.loads(options.get(BASE_PARAMS, "{}"))
    return params


def own_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a table that are for the bucket it is in."""
    return {key: value for key, value in options.items() if key not in TABLE and not _OF_BASE.match(key)}


def options_of_base(options: Mapping[str, str], base_id: int) -> dict[str, str]:
    """The options that are for one base path alone.

    Examples
    --------
    >>> options_of_base({"region": "a", "base_1.region": "b", "base_2.region": "c"}, 1)
    {'region': 'b'}
    """
    scoped = ((_OF_BASE.match(key), value) for key, value in options.items())
    return {match[2]: value for match, value in scoped if match and int(match[1]) == base_id}


def is_explicit(kind: str, options: Mapping[str, str]) -> bool:
    """Whether options say who one is in a cloud or where it is, so that the environment need not."""
    own = (_without_prefix(key.lower(), kind) for key in own_options(options))
    return any(key in KINDS[kind][1] and key not in _REGIONS for key in own)


def _plain(uri: str) -> str:
    return uri.removeprefix("file://").rstrip("/")


def sort_options(kind: str, options: Mapping[str, str]) -> ObstoreSettings:
    """Pick out what concerns a store of this kind (``s3``, ``gs`` or ``az``)."""
    config: dict[str, str] = {}
    client: dict[str, Any] = {}
    retry: dict[str, Any] = {}
    for given, value in options.items():
        key = given.lower()
        mine = _without_prefix(key, kind)
        if mine in KINDS[kind][1]:
            config[mine] = str(value)
        elif mine in CLIENT:
            client[mine] = _switch(given, value) if mine in SWITCHES else str(value)
        elif key == "client_max_retries":
            retry["max_retries"] = _number(given, value)
        elif key == "client_retry_timeout":
            retry["retry_timeout"] = timedelta(seconds=_number(given, value))
        elif not _known(key):
            raise InvalidInput(f"unknown storage option '{given}'{_nearest(key)}")
    return ObstoreSettings(config, client, retry)


def _without_prefix(key: str, kind: str) -> str:
    for prefix in PREFIXES[kind]:
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return key


def _known(key: str) -> bool:
    if key in CLIENT or key in PYLANCE or key in TABLE or key.startswith(("headers.", "ddb_", "dynamodb_")):
        return True
    if _OF_BASE.match(key):
        return True
    return any(_without_prefix(key, kind) in keys for kind, (_, keys) in KINDS.items())


def _nearest(key: str) -> str:
    every = {*CLIENT, *PYLANCE, *TABLE}
    for prefix, keys in KINDS.values():
        every |= keys | {prefix + name for name in keys}
    close = difflib.get_close_matches(key, sorted(every), n=1)
    return f"; did you mean '{close[0]}'?" if close else "; see object_store's names of options"


def _switch(key: str, value: object) -> bool:
    text = str(value).strip().lower()
    if text in ("1", "true", "on", "yes", "y"):
        return True
    if text in ("0", "false", "off", "no", "n"):
        return False
    raise InvalidInput(f"storage option '{key}' is {value!r}, but it must be 'true' or 'false'")


def _number(key: str, value: object) -> int:
    text = str(value).strip()
    if not text.isdecimal():
        raise InvalidInput(f"storage option '{key}' is {value!r}, but it must be a whole number")
    return int(text)
