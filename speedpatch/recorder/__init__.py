"""Record what a training script does, from outside, and compare two recordings."""

from speedpatch.recorder.record import record
from speedpatch.recorder.recording import Recording, RecordingError, recording_from_json
from speedpatch.recorder.server import Server

__all__ = ["Recording", "RecordingError", "Server", "record", "recording_from_json"]
