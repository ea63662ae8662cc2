"""The public names of pylance are here, and are called in the same way."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import typing
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pytest

import lancelet

# Modules that are not there, and why.
INSIDE = "pylance's own affair, not for its users"
NO_MODULE = {
    "torch": "needs a package that the tests do without; read as text below, and run by tests/vector where there is one",
    **dict.fromkeys(("conftest", "dependencies", "lance"), INSIDE),
    "io": "there is nothing in it",
}


def _module_names() -> list[str]:
    """Every public module of pylance that has a name of its own, but for those that are not here for a reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        walk = pkgutil.walk_packages(lance.__path__, "lance.", onerror=lambda name: None)
        found = [module.name.removeprefix("lance.") for module in walk]
    public = [name for name in found if not any(part.startswith("_") for part in name.split("."))]
    assert {name for name in NO_MODULE if name not in public} == set(), "pylance has these no more"
    return ["", *(name for name in public if not {name, name.partition(".")[0]} & NO_MODULE.keys())]


# What is not there, and why.
INNER = "a piece of pylance's binding that only pylance calls"
BORROWED = "a name of another module that happens to be imported there"
MISSING = {
    **dict.fromkeys(
        (
            "MergeInsertBuilder.analyze_plan_batches",
            "MergeInsertBuilder.execute_batches",
            "MergeInsertBuilder.execute_uncommitted_batches",
            "LanceBlobFile",
            "PrioritizedItem",
            "PyFullTextQuery",
            "PySearchFilter",
            "model_to_dict",
            "lance_capture_trace_events",
            "lance_trace_to_chrome",
            "normalize_transform",
            "serialize_row_addrs",
            "shutdown_tracing",
        ),
        INNER,
    ),
    **dict.fromkeys(("check_lindera", "import_requests"), "a step of pylance's downloads; ours needs neither package"),
    **dict.fromkeys(("PyDirectoryNamespace", "PyRestAdapter", "PyRestNamespace"), INNER),
    **dict.fromkeys(
        (
            "dataset.DEFAULT_BLOB_BUFFER_SIZE",
            "dataset.IndexSegment",
            "dataset.td_to_micros",
            "fragment.Session",
            "vector.write_dataset",
            *(f"indices.{module}.LanceFile{what}" for module in ("ivf", "pq") for what in ("Reader", "Writer")),
        ),
        BORROWED,
    ),
}

GIVEN = "users get it from a method and do not make it themselves"
STRICT = "unknown options are refused rather than ignored"
OTHER = {
    **dict.fromkeys(
        (
            "BlobDescriptor",
            "Branches",
            "CleanupCandidateFile",
            "CleanupExplanation",
            "CleanupReferencedBranch",
            "CleanupStats",
            "CompactionMetrics",
            "CompactionPlan",
            "CompactionTask",
            "DatasetDelta",
            "DedicatedBlobWriter",
            "ExecutionPlan",
            "FragmentSession",
            "FtsToken",
            "IOStats",
            "IndexSegment",
            "IndexSegmentDescription",
            "LanceBufferDescriptor",
            "LanceColumnMetadata",
            "LanceFileMetadata",
            "LanceFileStatistics",
            "LanceFragment",
            "LanceScanner",
            "LanceSchema",
            "LancePageMetadata",
            "LanceStats",
            "LsmScanner",
            "PackedBlobWriter",
            "RewriteResult",
            "RowDatasetVersionMeta",
            "RowIdMeta",
            "ScanStatistics",
            "ShardWriter",
            "SqlQuery",
            "SqlQueryBuilder",
            "Tags",
            "TraceEvent",
        ),
        GIVEN,
    ),
    **dict.fromkeys(("LanceDataset.deep_clone", "LanceDataset.shallow_clone"), STRICT),
    "DatasetBasePath": "a base path that has no id yet has the id 0, as in the files",
    "DeletionFile": "base_id has a default: most deletion files have none",
    "set_logger": "the logger and its file have the name of this library",
}


NOT_IN_TORCH = {"KMeans.rebuild_index": "a step of fit that pylance's own fit takes"}
"""What only pylance's modules for torch have, and why."""

OTHER_VALUES: dict[str, str] = {}
"""Constants that have another value here, and why."""

TURNED: dict[str, str] = {}
"""Methods that are properties here or the other way round, and why."""


def _modules(name: str) -> tuple[Any, Any]:
    path = f".{name}" if name else ""
    return importlib.import_module(f"lance{path}"), importlib.import_module(f"lancelet{path}")


def _public(thing: Any) -> list[str]:
    return [name for name in sorted(dir(thing)) if not name.startswith("_")]


def _is_constant(name: str, value: Any) -> bool:
    alias = typing.get_origin(value) is not None and getattr(value, "__module__", None) == "typing"
    return alias or (name.isupper() and isinstance(value, (bool, int, float, str, bytes, tuple, frozenset)))


DEFINING = ("lance", "builtins", "_lib", "lance_namespace", "lance_namespace_urllib3_client")
"""Packages whose classes and functions are pylance's to give; the last two have the requests of namespaces."""


def _names() -> Iterator[tuple[str, str]]:
    """Module and name of every class, function and constant that pylance defines."""
    for module in _module_names():
        theirs = importlib.import_module(f"lance.{module}" if module else "lance")
        for name in _public(theirs):
            value = getattr(theirs, name)
            if getattr(typing, name, None) is value:
                continue
            origin = getattr(value, "__module__", None) or "builtins"
            defined = callable(value) and origin.partition(".")[0] in DEFINING
            if defined or _is_constant(name, value):
                yield module, name


def _shared() -> Iterator[tuple[str, Any, Any]]:
    """Every class, function and method that both have, under its name; once each."""
    seen = set()
    for module, name in _names():
        theirs, ours = (getattr(library, name, None) for library in _modules(module))
        if ours is None or ours is theirs or id(theirs) in seen:
            continue
        seen.add(id(theirs))
        yield name, theirs, ours
        for method in _public(theirs) if inspect.isclass(theirs) else ():
            if callable(getattr(theirs, method)) and hasattr(ours, method):
                yield f"{name}.{method}", getattr(theirs, method), getattr(ours, method)


def _is_described(value: Any) -> bool:
    """Whether a member of a class is an attribute of its instances, or called on the class."""
    return inspect.isdatadescriptor(value) or isinstance(value, (staticmethod, classmethod))


def _is_called(value: Any) -> bool:
    return callable(value) or isinstance(value, (staticmethod, classmethod))


def _has(kind: type, member: str) -> bool:
    if hasattr(kind, member) or member in getattr(kind, "__annotations__", {}):
        return True
    made = kind.__dict__.get("__init__")
    return inspect.isfunction(made) and member in set(
        re.findall(r"\bself\.(\w+)(?:: [^=\n]+)? = ", inspect.getsource(made))
    )


def _absent() -> Iterator[tuple[str, str]]:
    """Module and name of what only pylance has."""
    for module, name in _names():
        theirs, ours = (getattr(library, name, None) for library in _modules(module))
        if ours is None:
            yield module, name
        elif inspect.isclass(theirs):
            for member in _public(theirs):
                value = inspect.getattr_static(theirs, member)
                if (callable(value) or _is_described(value)) and not _has(ours, member):
                    yield module, f"{name}.{member}"


def _parameters(call: Any) -> list[inspect.Parameter] | None:
    try:
        found = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        return None
    return [one for one in found if one.name != "self" and not one.name.startswith("_")]


def _default(one: inspect.Parameter) -> Any:
    """What stands for a parameter that is left out; members of enumerations go by their values."""
    return one.default.value if isinstance(one.default, enum.Enum) else one.default


def _differences(theirs: Any, ours: Any) -> list[str]:
    """What a call that pylance takes would stumble over."""
    wanted, given = _parameters(theirs), _parameters(ours)
    if wanted is None or given is None:
        return []
    known = {one.name: one for one in given}
    flaws = [f"has no {one.name}" for one in wanted if one.name not in known]
    for one in wanted:
        mine = known.get(one.name)
        if mine is not None and (mine.kind, _default(mine)) != (one.kind, _default(one)):
            flaws.append(
                f"{one.name} is {mine.kind.name} with {mine.default!r}, not {one.kind.name} with {one.default!r}"
            )
    places = [one.name for one in given if one.kind is one.POSITIONAL_OR_KEYWORD]
    theirs_in_place = [one.name for one in wanted if one.kind is one.POSITIONAL_OR_KEYWORD]
    if places != theirs_in_place:
        flaws.append(f"takes {places} by position, not {theirs_in_place}")
    return flaws


def test_names() -> None:
    absent = set(_absent())
    assert {(module, name) for module, name in absent if not {name, f"{module}.{name}"} & MISSING.keys()} == set()
    known = {name for _, name in absent} | {f"{module}.{name}" for module, name in absent}
    assert {name for name, reason in MISSING.items() if reason != BORROWED} - known == set(), "these are there now"


def test_modules_are_found_without_an_import_of_their_own() -> None:
    """What ``import lance`` makes an attribute is one here, and so are the others."""
    program = "import sys, lancelet; [getattr(lancelet, name) for name in sys.argv[1:]]"
    names = [name for name in _module_names() if name and "." not in name]
    assert {"query", "tracing", "otel", "optimize"} <= set(names)
    subprocess.run([sys.executable, "-c", program, *names, "spark", "testing"], check=True, timeout=120)


def test_names_are_completed() -> None:
    """Editors and shells ask ``dir``, before anybody has asked for a name."""
    program = "import lancelet; print(*dir(lancelet)); from lancelet import *"
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=120, capture_output=True, text=True)
    assert {*lancelet.__all__, "optimize", "file", "fragment"} <= set(done.stdout.split())


def test_all_names_are_there_without_the_package_of_namespaces() -> None:
    """Whoever calls what needs it is told what to install."""
    program = (
        "import sys; sys.modules['lance_namespace'] = None\n"
        "from lancelet import *\n"
        "import lancelet.namespace\n"
        "for call in (lambda: connect('x'), lambda: lancelet.namespace.RestNamespace):\n"
        "    try: call()\n"
        "    except lancelet.errors.MissingPackage as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=120, capture_output=True, text=True)
    assert done.stdout.count("pip install 'lancelet[namespace]'") == 2


def test_constants() -> None:
    differences = {}
    for module, name in _names():
        theirs, ours = (getattr(library, name, None) for library in _modules(module))
        if ours is None:
            continue
        if inspect.isclass(theirs) and issubclass(theirs, enum.Enum):
            theirs, ours = ({one.name: one.value for one in kind} for kind in (theirs, ours))
        elif not _is_constant(name, theirs):
            continue
        if (typing.get_origin(theirs), typing.get_args(theirs)) == (typing.get_origin(ours), typing.get_args(ours)):
            same = typing.get_origin(theirs) is not None or theirs == ours
        else:
            same = False
        if not same:
            differences[f"{module}.{name}"] = (theirs, ours)
    assert differences.keys() == OTHER_VALUES.keys(), differences


def test_what_is_called_is_called() -> None:
    """A method is no property here, and a property no method."""
    turned = set()
    for name, theirs, ours in _shared():
        if inspect.isclass(theirs) and not issubclass(theirs, enum.Enum):
            for member in _public(theirs):
                value, mine = (inspect.getattr_static(kind, member, None) for kind in (theirs, ours))
                if mine is not None and _is_called(value) != _is_called(mine):
                    turned.add(f"{name}.{member}")
    assert turned == TURNED.keys()


def _defined(module: Path) -> dict[str, list[str]]:
    """Public classes, functions and methods that a file defines, each with the names of what it takes."""
    found = {}
    for node in ast.parse(module.read_text()).body:
        inside = node.body if isinstance(node, ast.ClassDef) else []
        for one, above in (
            (node, ""),
            *((method, f"{node.name}.") for method in inside if isinstance(node, ast.ClassDef)),
        ):
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and (
                not one.name.startswith("_") or one.name == "__init__"
            ):
                taken = [*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs]
                found[f"{above}{one.name}"] = [argument.arg for argument in taken if not argument.arg.startswith("_")]
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found.setdefault(node.name, [])
    return {name: taken for name, taken in found.items() if not name.startswith("_")}


def test_what_needs_torch() -> None:
    """Read, not imported: what pylance's modules define is defined here, and takes the same."""
    theirs, ours = (Path(library.__path__[0], "torch") for library in (lance, lancelet))
    modules = sorted(file.name for file in theirs.glob("*.py"))
    assert "kmeans.py" in modules
    absent = set()
    for name in modules:
        mine = _defined(ours / name)
        for title, taken in _defined(theirs / name).items():
            if title not in mine:
                absent.add(title)
            else:
                assert set(taken) <= set(mine[title]), f"{title} of torch/{name}"
    assert absent == NOT_IN_TORCH.keys()


SHARED = {title: (theirs, ours) for title, theirs, ours in _shared()}


@pytest.mark.parametrize("title", sorted(SHARED))
def test_signatures(title: str) -> None:
    found = _differences(*SHARED[title])
    assert bool(found) == (title in OTHER), found
