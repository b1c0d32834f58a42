"""Run in the recording process, by its path: one job from a file, or jobs as they come.

    python child.py JOB.json        run one job
    python child.py --serve         run a process for each job that comes in on stdin

The script finds the interpreter as plain `python SCRIPT` leaves it: its own `__main__`, argv and path.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import random
import sys
import traceback
import types
from pathlib import Path

HOME = str(Path(__file__).resolve().parents[2])
sys.path[0] = HOME

import torch  # noqa: E402

import speedpatch.recorder.serving as serving  # noqa: E402
from speedpatch.recorder.hooks import install  # noqa: E402
from speedpatch.recorder.job import Job, job_from_json  # noqa: E402
from speedpatch.recorder.watch import Stop, Watch, leave  # noqa: E402

sys.path.remove(HOME)


def main(argument: str) -> None:
    """Serve, or run the one job and leave with its status."""
    if argument == "--serve":
        serving.serve(run_job)
    leave(run_job(job_from_json(Path(argument).read_text(encoding="utf-8"))))


def run_job(job: Job) -> int:
    """Run the script with everything hooked; the exit status that the process should have."""
    watch = Watch(job, rank=int(os.environ.get("RANK", "0")))
    try:
        prepare(job)
        install(watch)
        run_script(job)
    except Stop:
        return 0
    except SystemExit as stop:
        if stop.code is not None and stop.code != 0:
            print(f"SystemExit: {stop.code}", file=sys.stderr)
            return 1
    except BaseException as error:
        traceback.print_exception(error.with_traceback(_of_script(error)))
        return 1
    watch.write(finished=True)
    return 0


def _of_script(error: BaseException) -> types.TracebackType | None:
    """The traceback without our own frames at its head; with them if there are no others."""
    here = error.__traceback__
    while here and here.tb_next and here.tb_frame.f_code.co_filename == __file__:
        here = here.tb_next
    return here


def prepare(job: Job) -> None:
    """Threads, preloaded files and seeds, in this order."""
    importlib.import_module("torch._dynamo")  # it remembers torch's functions: before they are hooked
    torch.set_num_threads(job.threads)
    sys.argv = [job.script, *job.args]
    sys.path.insert(0, str(Path(job.cwd, job.script).resolve().parent))
    for number, path in enumerate(job.preload):
        preload(Path(path), f"_speedpatch_preload_{number}")
    if job.seed is None:
        return
    random.seed(job.seed)
    torch.manual_seed(job.seed)
    if importlib.util.find_spec("numpy"):
        importlib.import_module("numpy.random").seed(job.seed)


def preload(path: Path, name: str) -> None:
    """Import a python file, or a folder that is a package, under a name of our own."""
    file, places = (path / "__init__.py", [str(path)]) if path.is_dir() else (path, None)
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=places)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def run_script(job: Job) -> None:
    """Run the file as `__main__`."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=job.script, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = module
    exec(compile(Path(job.script).read_bytes(), job.script, "exec", dont_inherit=True), module.__dict__)


if __name__ == "__main__":
    main(sys.argv[1])
