"""Scripts run as users run them, stop after the wanted steps, and say clearly why when they fail."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from speedpatch.recorder import Recording, RecordingError, record, recording_from_json
from tests.recorder.conftest import RecordText

LOOP = "for _ in range(6):\n    step()\n"


def test_stops_after_the_wanted_steps(record_text: RecordText) -> None:
    recording = record_text(LOOP + "print('never')\n", steps=3)
    assert (len(recording.steps), recording.finished, recording.stdout) == (3, False, "")


def test_runs_to_the_natural_end(record_text: RecordText) -> None:
    recording = record_text(LOOP + "print('done')\n")
    assert (len(recording.steps), recording.finished, recording.stdout) == (6, True, "done\n")


@pytest.mark.parametrize("handler, end", [("except Exception:", ""), ("except:", "exit(3)\n")])
def test_stops_scripts_that_swallow_errors(record_text: RecordText, handler: str, end: str) -> None:
    text = f"for _ in range(9):\n    try:\n        step()\n    {handler}\n        pass\n{end}"
    assert len(record_text(text, steps=4).steps) == 4


def test_script_sees_its_arguments_and_its_folder_first(record_text: RecordText) -> None:
    text = "import sys\nprint(sys.argv[1:], __name__, __file__ == sys.argv[0], sys.path[0])\n"
    printed = record_text(text, args=["--lr", "1"]).stdout
    assert printed.startswith("['--lr', '1'] __main__ True /")
    assert "speedpatch/recorder" not in printed


def test_script_imports_its_neighbours(record_text: RecordText, tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("ANSWER = 42\n", encoding="utf-8")
    assert record_text("from neighbour import ANSWER\nprint(ANSWER)\n").stdout == "42\n"


def test_same_seed_gives_the_same_bits(record_text: RecordText) -> None:
    text = "import random, numpy\nprint(random.random(), numpy.random.rand(), torch.rand(1).item(), hash('x'))\n" + LOOP
    head = "import torch\nfrom torch import nn\nmodel = nn.Linear(4, 1)\nprint(model.weight)\n"
    head += "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\ninputs = torch.randn(8, 4)\n"
    head += "def step():\n    model(inputs).mean().backward()\n    optimizer.step()\n"
    runs = [record_text(text, head=head, seed=seed) for seed in (5, 5, 6)]
    assert runs[0] == runs[1]
    assert runs[0].parameters != runs[2].parameters


def test_failure_ends_with_the_last_lines_of_stderr(record_text: RecordText) -> None:
    with pytest.raises(
        RecordingError, match=r"script\.py: failed with status 1(.|\n)*ValueError: no such thing$"
    ) as caught:
        record_text("step()\nraise ValueError('no such thing')\n")
    assert "speedpatch/recorder" not in str(caught.value)


@pytest.mark.parametrize(
    "text, reason",
    [
        pytest.param("import sys\nsys.exit(2)\n", "failed with status 1", id="exit with a status"),
        pytest.param("import os\nos._exit(0)\n", "without a recording", id="exit at once"),
        pytest.param("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "killed by signal 9", id="killed"),
        pytest.param("def f(:\n", "SyntaxError", id="does not parse"),
    ],
)
def test_failures_have_clear_reasons(record_text: RecordText, text: str, reason: str) -> None:
    with pytest.raises(RecordingError, match=reason):
        record_text(text)


def test_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"nothing\.py: no such script"):
        record(tmp_path / "nothing.py")


def test_timeout_names_what_was_waited_for(record_text: RecordText) -> None:
    with pytest.raises(RecordingError, match="did not reach 5 steps within 1 s"):
        record_text("import time\nstep()\ntime.sleep(60)\n", steps=5, timeout=1.0)


def test_clean_exit_is_an_end(record_text: RecordText) -> None:
    assert record_text("step()\nraise SystemExit\n").finished


def test_thread_that_never_ends_does_not_hold_the_recording(record_text: RecordText) -> None:
    text = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
    assert len(record_text(text + LOOP, steps=2, timeout=60.0).steps) == 2


def test_json_keeps_every_bit(record_text: RecordText) -> None:
    recording = record_text("step()\n(model(inputs).sum() * float('nan')).backward()\noptimizer.step()\n")
    again = recording_from_json(recording.to_json())
    assert math.isnan(again.losses[1])
    assert again.to_json() == recording.to_json()
    assert again.losses[0] == recording.losses[0]


def test_json_of_another_version_is_refused() -> None:
    with pytest.raises(RecordingError, match="version 99"):
        recording_from_json('{"version": 99}')


@pytest.mark.slow
def test_process_of_its_own_gives_what_a_fork_gives(record_text: RecordText, tmp_path: Path) -> None:
    forked = record_text(LOOP, steps=3)
    alone: Recording = record(tmp_path / "script.py", steps=3)
    assert (alone.steps, alone.parameters) == (forked.steps, forked.parameters)
