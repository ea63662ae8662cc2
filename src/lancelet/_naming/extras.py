"""Packages that only some users need: imported when they are asked for, with an error that says how to install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lancelet.errors import MissingPackage


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """A module of a package that an extra of this one brings.

    Examples
    --------
    >>> import_extra("fractions", "numbers", "counting in halves").Fraction(1, 2)
    Fraction(1, 2)
    >>> import_extra("no_such_package", "nothing", "doing nothing")
    Traceback (most recent call last):
    ...
    lancelet.errors.MissingPackage: doing nothing needs the package no_such_package: pip install 'lancelet[nothing]'
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingPackage(f"{purpose} needs the package {package}: pip install 'lancelet[{extra}]'") from error
