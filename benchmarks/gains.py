"""Time the training steps of a script before and after patching, on the machine that this runs on.

    python benchmarks/gains.py [SCRIPT] [--flags "--amp --amp-dtype bfloat16" --flags "--compile" ...] [--rounds 3]

Every round runs the script as it is and once for each set of flags, each as a process of its own; what counts is the
median over the rounds of the ratios within one round, for other programs on the machine slow all runs alike. A step is
timed from one optimizer step to the next; the first half of a run, in which code is compiled, does not count.
"""

from __future__ import annotations

import argparse
import json
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve()
FLAGS = ("--amp --amp-dtype bfloat16", "--compile", "--amp --amp-dtype bfloat16 --compile")


def main() -> None:
    """Parse the command line, or be the child that runs a script."""
    if sys.argv[1:2] == ["--child"]:
        run_child(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", nargs="?", type=Path, default=HERE.parent.parent / "examples" / "transformer.py")
    parser.add_argument("--flags", action="append", default=[], help="what to patch with; once for each set")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    compare(given.script, given.flags or list(FLAGS), given.rounds)


def compare(script: Path, flags: list[str], rounds: int) -> None:
    """Print the median time of a step for each set of flags, and how many times as fast it is as the script."""
    with tempfile.TemporaryDirectory() as folder:
        variants = {
            "as it is": script,
            **{item: patched(script, item, Path(folder, str(i))) for i, item in enumerate(flags)},
        }
        times = [{name: step_seconds(path) for name, path in variants.items()} for _ in range(rounds)]
    for name in variants:
        seconds = median(item[name] for item in times)
        ratio = median(item["as it is"] / item[name] for item in times)
        print(f"{name:45} {seconds * 1000:8.1f} ms a step {ratio:6.2f} times as fast")


def patched(script: Path, flags: str, folder: Path) -> Path:
    """A copy of the script, patched."""
    folder.mkdir()
    copy = Path(shutil.copy(script, folder))
    command = [sys.executable, "-m", "speedpatch", "apply", str(copy), *shlex.split(flags), "--yes"]
    subprocess.run(command, cwd=HERE.parent.parent, check=True, capture_output=True)
    return copy


def step_seconds(script: Path) -> float:
    """Median seconds between the steps of the second half of a run."""
    command = [sys.executable, str(HERE), "--child", str(script)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    moments: list[float] = json.loads(done.stdout.splitlines()[-1])
    steps = [after - before for before, after in pairwise(moments)]
    return median(steps[len(steps) // 2 :])


def run_child(script: str) -> None:
    """Run a script and print when its optimizers stepped."""
    from torch import cuda
    from torch.optim.optimizer import register_optimizer_step_post_hook

    moments: list[float] = []

    def note(*_: Any) -> None:
        if cuda.is_available():
            cuda.synchronize()
        moments.append(time.perf_counter())

    register_optimizer_step_post_hook(note)
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")
    print(json.dumps(moments))


if __name__ == "__main__":
    main()
