"""What the recording process is asked to do: frozen data that travels as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """One script to run: as if by `python SCRIPT ARGS` in `cwd`, with what is found written under `folder`.

    `preload` are python files that run before the script, in its process. `steps` None records to the end;
    `init_scale` is the scale that every GradScaler starts with in place of its own.
    """

    script: str
    args: tuple[str, ...]
    folder: str
    cwd: str
    steps: int | None
    seed: int | None
    threads: int
    preload: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    init_scale: float | None

    @property
    def stdout(self) -> Path:
        """Where the script's standard output goes."""
        return Path(self.folder, "stdout")

    @property
    def stderr(self) -> Path:
        """Where the script's standard error goes."""
        return Path(self.folder, "stderr")

    def result(self, rank: int = 0) -> Path:
        """Where the recording of one rank goes; there is none until it is whole."""
        return Path(self.folder, f"recording.{rank}.json")

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(dataclasses.asdict(self))


def job_from_json(text: str) -> Job:
    """The job that `to_json` wrote."""
    data = json.loads(text)
    pairs = tuple((name, value) for name, value in data["env"])
    return Job(**{**data, "args": tuple(data["args"]), "preload": tuple(data["preload"]), "env": pairs})
