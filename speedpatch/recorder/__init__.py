"""Record what a training script does, from outside, and compare two recordings."""

from speedpatch.recorder.activity import inactive
from speedpatch.recorder.compare import Comparison, Difference, compare
from speedpatch.recorder.record import record
from speedpatch.recorder.recording import Recording, RecordingError, recording_from_json
from speedpatch.recorder.server import Server
from speedpatch.recorder.tolerance import TOLERANCES, Tolerance, tolerance_for

__all__ = [
    "TOLERANCES",
    "Comparison",
    "Difference",
    "Recording",
    "RecordingError",
    "Server",
    "Tolerance",
    "compare",
    "inactive",
    "record",
    "recording_from_json",
    "tolerance_for",
]
