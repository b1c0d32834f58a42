"""Run the command line; whatever goes wrong is one line and an exit code."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The entry point of `speedpatch` and `python -m speedpatch`."""
    try:
        from speedpatch.cli import app

        app(prog_name="speedpatch")
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not flush into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        from speedpatch.run import internal

        print(f"speedpatch: {internal(error)}", file=sys.stderr)
        sys.exit(123)


if __name__ == "__main__":
    main()
