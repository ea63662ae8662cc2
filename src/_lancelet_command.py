"""What the command ``lancelet`` starts with. It stands outside of the package, whose import takes a while."""

from __future__ import annotations

import signal


def run() -> None:
    """Run the command; an interrupt while it is loaded ends the process at once, without a traceback."""
    heard = signal.getsignal(signal.SIGINT)
    if heard is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from lancelet.cli import main

    signal.signal(signal.SIGINT, heard)
    main.run()
