"""Say whether an optimization was at work in a recorded run: parity of a run without it proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from speedpatch.recorder.recording import Recording


def inactive(
    recording: Recording, codemod: str, amp_dtype: str = "float16", evaluation: bool = True
) -> tuple[str, ...]:
    """Why a codemod was not (or not wholly) at work; nothing when it was, or when nothing is known of it.

    `evaluation` False leaves open what calls without gradients do: a script may have no evaluation loop to patch.
    """
    checks: dict[str, Callable[[], Iterator[str]]] = {
        "amp": lambda: _amp(recording, amp_dtype, evaluation),
        "compile": lambda: _compile(recording),
        "dataloader": lambda: iter(() if recording.workers else ("no DataLoader ran workers",)),
        "ddp": lambda: iter(() if recording.ranks > 1 else ("one process trained alone",)),
    }
    return tuple(checks[codemod]()) if codemod in checks else ()


def _amp(recording: Recording, dtype: str, evaluation: bool) -> Iterator[str]:
    if dtype not in {entry.split(":")[1] for entry in recording.autocast()}:
        yield f"no forward call ran under {dtype} autocast"
    outside = sum(f.calls for f in recording.forwards if f.gradient and not f.autocast)
    if outside and recording.autocast():
        yield f"{outside} forward calls of training ran without autocast"
    if evaluation and not all(f.gradient for f in recording.forwards) and not recording.autocast(gradient=False):
        yield "no forward call of evaluation ran under autocast"
    if dtype not in recording.precisions and not recording.compiled.backwards:
        yield f"nothing behind the losses was computed in {dtype}"
    if dtype == "float16":
        yield from _scaler(recording)


def _scaler(recording: Recording) -> Iterator[str]:
    working = [scaler for scaler in recording.scalers if scaler.enabled and scaler.steps]
    if len(working) != 1:
        yield f"{len(working)} GradScalers stepped an optimizer, one was due"
    plain = sum(not backward.scaled for backward in recording.backwards)
    if plain:
        yield f"{plain} of {len(recording.backwards)} losses were not scaled"


def _compile(recording: Recording) -> Iterator[str]:
    if not recording.compiled.frames:
        yield "no frame was compiled"
    elif not recording.compiled.backwards:
        yield "no loss was computed by compiled code"
