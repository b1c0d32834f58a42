"""What the documentation shows is what the tool does."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from docs.regenerate import page_of
from speedpatch import registry
from tests.checkouts import ROOT


def printed(*arguments: str) -> str:
    """What speedpatch prints."""
    command = [sys.executable, "-m", "speedpatch", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_diff_in_the_readme_is_what_the_command_prints() -> None:
    readme = (ROOT / "README.md").read_text()
    (flags,) = re.findall(r"^    speedpatch apply train\.py (.*)$", readme, re.MULTILINE)
    (block,) = re.findall(r"```diff\n(.*?)```", readme, re.DOTALL)
    assert block == printed("apply", "examples/train.py", *flags.split(), "--diff").replace("examples/", "")


@pytest.mark.parametrize("name", sorted(registry.codemods()))
def test_the_page_of_an_optimization_is_what_its_code_says(name: str) -> None:
    codemod = registry.codemods()[name]
    page = (ROOT / "docs" / codemod.docs).read_text()
    assert page == page_of(codemod), "run `./dev python docs/regenerate.py` and review what it changed"


@pytest.mark.parametrize("command", ["apply", "scan"])
def test_every_option_is_in_the_manual(command: str) -> None:
    manual = (ROOT / "docs" / "commands.md").read_text()
    own = {f"--{name}" for name in registry.codemods()}
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", printed(command, "--help"))) - own
    assert {option for option in options if f"`{option}" not in manual} == set()


def test_every_link_leads_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
