"""Rewrites of a program that keep what it does: a codemod has to give the correspondingly changed result."""

from __future__ import annotations

from tests.metamorphic.decoys import add_decoys
from tests.metamorphic.extract_step import extract_step
from tests.metamorphic.into_files import Split, into_files
from tests.metamorphic.into_main import into_main
from tests.metamorphic.into_notebook import into_notebook
from tests.metamorphic.renaming import Renamed, rename_locals
from tests.metamorphic.text import NotApplicable

__all__ = [
    "NotApplicable",
    "Renamed",
    "Split",
    "add_decoys",
    "extract_step",
    "into_files",
    "into_main",
    "into_notebook",
    "rename_locals",
]
