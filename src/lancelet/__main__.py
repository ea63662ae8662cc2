"""``python -m lancelet`` is the command ``lancelet``."""

from lancelet.cli.main import run

if __name__ == "__main__":
    run()
