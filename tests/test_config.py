"""Configuration and the torch release that is written for."""

from __future__ import annotations

from pathlib import Path

import pytest

from speedpatch.codemod import Options
from speedpatch.config import Config, UsageError, config_for, parse_target
from speedpatch.target import target_for


def configure(folder: Path, text: str) -> Config:
    """Write a pyproject.toml and read what it says."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return config_for(folder)


def test_reads_everything(tmp_path: Path) -> None:
    config = configure(
        tmp_path,
        '[tool.speedpatch]\noptimizations = ["amp", "--compile"]\namp-dtype = "bfloat16"\n'
        'compile-mode = "max-autotune"\ntarget-torch = "2.6"\n',
    )
    assert config.path == tmp_path / "pyproject.toml"
    assert config.optimizations == ("amp", "compile")
    assert config.options({}) == Options("bfloat16", "max-autotune", (2, 6))


def test_the_command_line_wins(tmp_path: Path) -> None:
    config = configure(tmp_path, '[tool.speedpatch]\namp-dtype = "bfloat16"\n')
    assert config.options({"amp_dtype": "float16"}).amp_dtype == "float16"


def test_takes_the_nearest_one_that_has_the_table(tmp_path: Path) -> None:
    configure(tmp_path, '[tool.speedpatch]\noptimizations = ["amp"]\n')
    configure(tmp_path / "a", "[project]\nname = 'a'\n")
    configure(tmp_path / "a/b", "[tool.speedpatch]\noptimizations = []\n")
    assert config_for(tmp_path / "a" / "c").optimizations == ("amp",)
    assert config_for(tmp_path / "a" / "b").optimizations == ()


def test_stops_at_the_repository(tmp_path: Path) -> None:
    configure(tmp_path, '[tool.speedpatch]\noptimizations = ["amp"]\n')
    (tmp_path / "repo/.git").mkdir(parents=True)
    assert config_for(tmp_path / "repo") == Config()


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        pytest.param("[tool.speedpatch]\n\nflags = []\n", 3, "unknown key `flags`", id="an unknown key"),
        pytest.param("[tool.speedpatch]\noptimizations = 'amp'\n", 2, "has to be a list", id="no list"),
        pytest.param("[tool.speedpatch]\nexclude = [1]\n", 2, "exclude has to be a list", id="no patterns"),
        pytest.param("[tool.speedpatch]\namp-dtype = 'int8'\n", 2, "one of float16, bfloat16", id="no such dtype"),
        pytest.param("[tool.speedpatch]\ntarget-torch = 2\n", 2, "a release such as", id="no release"),
        pytest.param("[tool.speedpatch]\ntarget-torch = '2.3'\n", 2, "nothing older than 2.4", id="too old"),
    ],
)
def test_names_what_is_wrong_and_where(tmp_path: Path, text: str, line: int, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        configure(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'pyproject.toml'}:{line}: ")
    assert reason in str(caught.value)


def test_names_a_file_that_is_no_toml(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"pyproject\.toml: cannot be read as TOML: .*line 1"):
        configure(tmp_path, "[tool.speedpatch\n")


def test_parses_a_target() -> None:
    assert parse_target("--target-torch", "2.10.1") == (2, 10)


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        pytest.param("torch", (2, 15), id="nothing stated"),
        pytest.param("torch>=2.6", (2, 6), id="at least"),
        pytest.param("torch >= 2.6, < 3  # why", (2, 6), id="a range and a comment"),
        pytest.param("torch==2.5.1", (2, 5), id="pinned"),
        pytest.param("torch==2.5.1+cu121", (2, 5), id="pinned to a CUDA build"),
        pytest.param("torch~=2.7.0", (2, 7), id="compatible"),
        pytest.param("torch>2.6.0,!=2.7.*", (2, 6), id="a later patch release fits"),
        pytest.param("torch>=1.8", (2, 4), id="older ones are allowed too"),
        pytest.param("torch==1.13.1", (2, 4), id="only older ones are allowed"),
        pytest.param("torch>=99", (2, 15), id="only unknown ones are allowed"),
        pytest.param("torch>=2.6; python_version < '3.12'", (2, 6), id="a marker"),
        pytest.param("torch[opt]>=2.6", (2, 6), id="an extra"),
        pytest.param("torch @ file:///wheel.whl", (2, 15), id="a file"),
        pytest.param("torch==broken", (2, 15), id="no version"),
        pytest.param("torchvision>=0.19\ntorch-geometric==2.4\npytorch-lightning>=2.5", (2, 15), id="other packages"),
        pytest.param("torch==2.6.0 --index-url https://example.org", (2, 6), id="an option behind it"),
        pytest.param("torch==2.6.0 \\\n    --hash=sha256:00", (2, 6), id="a hash on the next line"),
    ],
)
def test_target_from_requirements(tmp_path: Path, requirement: str, expected: tuple[int, int]) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "requirements-gpu.txt").write_text(f"numpy\n{requirement}\n")
    (tmp_path / "src").mkdir()
    assert target_for(tmp_path / "src") == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param("pyproject.toml", "[project]\ndependencies = ['numpy', 'torch>=2.6']\n", (2, 6), id="project"),
        pytest.param("pyproject.toml", "[project.optional-dependencies]\na = ['torch~=2.7']\n", (2, 7), id="extra"),
        pytest.param(
            "pyproject.toml", "[dependency-groups]\na = ['torch>=2.8', {include-group = 'b'}]\n", (2, 8), id="group"
        ),
        pytest.param("pyproject.toml", "[tool.poetry.dependencies]\ntorch = '^2.6'\n", (2, 6), id="Poetry"),
        pytest.param(
            "pyproject.toml", "[tool.poetry.dependencies]\ntorch = {version = '~2.6.1'}\n", (2, 6), id="Poetry's table"
        ),
        pytest.param("pyproject.toml", "not toml", (2, 15), id="broken"),
        pytest.param("pyproject.toml", "project = 3\n", (2, 15), id="not what it should be"),
        pytest.param("environment.yml", "dependencies:\n  - pytorch::pytorch=2.5\n  - numpy\n", (2, 5), id="conda"),
    ],
)
def test_target_from_other_files(tmp_path: Path, name: str, text: str, expected: tuple[int, int]) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / name).write_text(text)
    assert target_for(tmp_path) == expected


def test_target_is_the_oldest_of_all_that_is_stated(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=2.9\n")
    (tmp_path / "requirements-old.txt").write_text("torch==2.5.*\n")
    assert target_for(tmp_path) == (2, 5)
