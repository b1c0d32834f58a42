"""Rules of the whole test run."""

from __future__ import annotations

import importlib.util
import os

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """In CI a missing torch fails the run: skipped parity tests would prove nothing there."""
    if os.environ.get("CI") and importlib.util.find_spec("torch") is None:
        raise pytest.UsageError("torch is not installed: in CI no test may be skipped for it")
