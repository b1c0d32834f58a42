"""Run the command line; whatever goes wrong is one line and an exit code."""

from __future__ import annotations

import gc
import sys

# Trees and facts are many objects that live until the end: looking for garbage among them took a third of the time.
GARBAGE = (100_000, 50, 100)


def main() -> None:
    """The entry point of `speedpatch` and `python -m speedpatch`."""
    gc.set_threshold(*GARBAGE)
    try:
        from speedpatch.cli import app

        app(prog_name="speedpatch")
    except Exception as error:
        from speedpatch.run import internal

        print(f"speedpatch: {internal(error)}", file=sys.stderr)
        sys.exit(123)


if __name__ == "__main__":
    main()
