"""The logger of the package, and where its lines go.

The logger ``lancelet`` tells at the level DEBUG what it does for a program: tables that are opened, commits and how often
they were tried, scans and the rows that indices left of them. Nothing of it goes anywhere by itself; where it goes is up
to the program, to :func:`set_logger`, or to the environment: with ``LANCE_LOG=debug`` lines go to the standard error, as
pylance's do. The variable may have several entries with commas between them; those with ``=`` are for single modules
of pylance.
"""

from __future__ import annotations

import logging
import os

from lancelet.errors import printable

ENV_NAME_PYLANCE_LOGGING_LEVEL = "LANCE_LOG"
_FORMAT = "%(asctime)s %(name)s [%(levelname)s] %(filename)s:%(lineno)d %(funcName)s : %(message)s"


def get_python_log_level(rust_log_level: str) -> str:
    """A level under the name that Python has for it."""
    return "DEBUG" if rust_log_level.lower() == "trace" else rust_log_level


def get_log_level() -> str:
    """The level that the environment asks for; INFO by default."""
    entries = os.environ.get(ENV_NAME_PYLANCE_LOGGING_LEVEL, "").upper().split(",")
    general = [entry for entry in entries if entry and "=" not in entry]
    return get_python_log_level(general[0]) if general else "INFO"


LOGGER = logging.getLogger("lancelet")
if os.environ.get(ENV_NAME_PYLANCE_LOGGING_LEVEL):
    LOGGER.setLevel(get_log_level() if isinstance(logging.getLevelName(get_log_level()), int) else "INFO")
    LOGGER.addHandler(logging.StreamHandler())


def debug(message: str, *values: object) -> None:
    """Note what happens; texts among the values come from anywhere, and are escaped."""
    if LOGGER.isEnabledFor(logging.DEBUG):
        shown = [printable(value) if isinstance(value, str) else value for value in values]
        LOGGER.debug(message, *shown, stacklevel=2)


def set_logger(
    file_path: str | None = "lancelet.log",
    name: str = "lancelet",
    level: int = logging.INFO,
    format_string: str | None = None,
    log_handler: logging.Handler | None = None,
) -> None:
    """Have a logger write its lines to a file.

    Parameters
    ----------
    file_path
        The file.
    name
        The logger; that of this package by default.
    level
        Lines of lesser importance are left out.
    format_string
        How a line looks, as :class:`logging.Formatter` has it.
    log_handler
        Takes the lines in place of the file.
    """
    global LOGGER
    LOGGER = logging.getLogger(name)
    LOGGER.setLevel(level)
    handler = logging.FileHandler(file_path or f"{name}.log") if log_handler is None else log_handler
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter(format_string or _FORMAT))
    LOGGER.addHandler(handler)
