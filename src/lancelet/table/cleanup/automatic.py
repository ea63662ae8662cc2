"""Cleaning up after a commit, when the table's config asks for it (spec table-format.md 8.6).

::

    lance.auto_cleanup.interval             run after versions that it divides; 0: after every one
    lance.auto_cleanup.older_than           an age such as 14d or "1h 30m"
    lance.auto_cleanup.retain_versions      how many of the newest versions stay
    lance.auto_cleanup.referenced_branch    true: clean up the branches of the table first, by their own config
    lance.auto_cleanup.delete_rate_limit, lance.auto_cleanup.delete_concurrency

The version before the new one stays, whatever the config says. Failures are
logged: the commit has taken place.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import timedelta

from lancelet.errors import InvalidCleanup, LanceletError
from lancelet.table.cleanup.plan import CleanupPlan, CleanupPolicy, plan_cleanup
from lancelet.table.cleanup.run import DeleteRate, run_cleanup
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.manifest.versions import read_latest
from lancelet.table.refs.read import branch_store

PREFIX = "lance.auto_cleanup."

_log = logging.getLogger("lancelet")
_NUMBER = re.compile(r"\+?[0-9]+\Z")
_AGE = re.compile(r"\s*([0-9]+)\s*([A-Za-z]+)")
_SECONDS = {
    name: seconds
    for names, seconds in (
        ("nsec ns nanos", 1e-9),
        ("usec us micros", 1e-6),
        ("millis msec ms", 1e-3),
        ("seconds second secs sec s", 1),
        ("minutes minute min mins m", 60),
        ("hours hour hrs hr h", 3600),
        ("days day d", 86400),
        ("weeks week wks wk w", 7 * 86400),
        ("months month M", 30.44 * 86400),
        ("years year yrs yr y", 365.25 * 86400),
    )
    for name in names.split()
}


def clean_after_commit(snapshot: Snapshot) -> None:
    """Clean up if the new version ``snapshot`` is one after which its config asks for it."""
    config = snapshot.manifest.head.config
    try:
        policy = due_policy(snapshot)
        if policy is None:
            return
        rate, cascade = _rate(config), _flag(config, "referenced_branch")
        plan = plan_cleanup(snapshot, policy, before=snapshot.version - 1)
        if cascade and _clean_branches(snapshot, plan):
            plan = plan_cleanup(snapshot, policy, before=snapshot.version - 1)
        run_cleanup(snapshot, plan, rate)
    except LanceletError as error:
        _log.warning(
            "version %s of %s is committed, but the cleanup after it failed: %s", snapshot.version, snapshot.uri, error
        )


def due_policy(snapshot: Snapshot) -> CleanupPolicy | None:
    """What the config of a version lets go; None when it asks for no cleanup after that version."""
    config = snapshot.manifest.config
    interval = _number(config, "interval")
    if interval is None or (interval and snapshot.version % interval):
        return None
    retain = _number(config, "retain_versions")
    if retain == 0:
        raise InvalidCleanup(f"config {PREFIX}retain_versions is 0, but the newest version always stays")
    age = config.get(f"{PREFIX}older_than")
    return CleanupPolicy(None if age is None else parse_age(age), retain)


def parse_age(text: str) -> timedelta:
    """Read an age as the config spells it.

    >>> parse_age("1h 30m")
    datetime.timedelta(seconds=5400)
    """
    seconds, at = 0.0, 0
    if text.strip() == "0":
        return timedelta(0)
    while at < len(text.rstrip()):
        match = _AGE.match(text, at)
        if match is None or match[2] not in _SECONDS:
            seconds = -1
            break
        seconds += int(match[1]) * _SECONDS[match[2]]
        at = match.end()
    if at == 0 or seconds < 0:
        raise InvalidCleanup(f"config {PREFIX}older_than is {text!r}; write an age such as '14d', '12h' or '1h 30m'")
    return timedelta(seconds=min(seconds, timedelta.max.total_seconds() / 2))


def _clean_branches(snapshot: Snapshot, plan: CleanupPlan) -> bool:
    """Clean up the branches that left the table, where their own config asks for it."""
    cleaned = False
    for branch in plan.branches:
        store = branch_store(snapshot.root, branch.name)
        newest = Snapshot.of(store, read_latest(store))
        policy = due_policy(newest)
        if policy is not None:
            run_cleanup(newest, plan_cleanup(newest, policy), _rate(newest.manifest.config))
            cleaned = True
    return cleaned


def _rate(config: Mapping[str, str]) -> DeleteRate:
    rate, requests = _number(config, "delete_rate_limit"), _number(config, "delete_concurrency")
    if rate == 0 or requests == 0:
        raise InvalidCleanup(f"config {PREFIX}delete_rate_limit and {PREFIX}delete_concurrency are positive numbers")
    return DeleteRate(rate, requests)


def _number(config: Mapping[str, str], key: str) -> int | None:
    text = config.get(f"{PREFIX}{key}")
    if text is None:
        return None
    if not _NUMBER.match(text):
        raise InvalidCleanup(f"config {PREFIX}{key} is {text!r}, not a number")
    return int(text)


def _flag(config: Mapping[str, str], key: str) -> bool:
    text = config.get(f"{PREFIX}{key}", "false")
    if text not in ("true", "false"):
        raise InvalidCleanup(f"config {PREFIX}{key} is {text!r}, neither 'true' nor 'false'")
    return text == "true"
