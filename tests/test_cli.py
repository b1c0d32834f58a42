"""The command line's contract: streams, exit codes, and that nothing is lost."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from speedpatch import patch, registry
from speedpatch.__main__ import main
from tests import fakes

SCRIPT = b"import torch\n"
AMP = SCRIPT + b"# amp float16\n"


@dataclass(frozen=True)
class Done:
    """What a command left: exit code and streams."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository that we are in."""
    path = tmp_path / "work"
    (path / ".git").mkdir(parents=True)
    monkeypatch.chdir(path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the command line with the fakes; standard streams are no terminal."""
    monkeypatch.setattr(registry, "codemods", lambda: fakes.CODEMODS)
    monkeypatch.setattr(patch, "patch", fakes.fake_patch)

    def run_main(*arguments: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "argv", ["speedpatch", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfdbinary.readouterr()
        assert b"Traceback" not in err
        code = left.value.code
        return Done(code if isinstance(code, int) else 0, out.decode("utf-8", "replace"), err.decode())

    return run_main


def lay(name: str, raw: bytes = SCRIPT) -> Path:
    """Write a file into the current folder."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


class TestActions:
    """What is shown and what is written."""

    def test_without_a_terminal_it_shows_and_writes_nothing(self, run: Run) -> None:
        script = lay("train.py")
        done = run("apply", "train.py", "--amp")
        assert done.code == 0
        assert done.out == "--- a/train.py\n+++ b/train.py\n@@ -1 +1,2 @@\n import torch\n+# amp float16\n"
        assert "train.py:1: amp would be applied: because of applied (close)" in done.err
        assert "nothing written: there is no terminal to ask on, use --yes to write" in done.err
        assert script.read_bytes() == SCRIPT

    def test_yes_writes_and_tells_the_way_back(self, run: Run) -> None:
        script = lay("train.py")
        done = run("apply", "train.py", "--amp", "--yes")
        assert (done.code, script.read_bytes()) == (0, AMP)
        assert "train.py:1: amp applied" in done.out
        assert "1 file changed\nto undo: speedpatch revert train.py (the reverse patch is " in done.out
        assert run("revert", "train.py").out == "train.py: reverted\n"
        assert script.read_bytes() == SCRIPT

    def test_applying_twice_is_applying_once(self, run: Run) -> None:
        script = lay("train.py")
        run("apply", "train.py", "--amp", "--yes")
        done = run("apply", "train.py", "--amp", "--yes")
        assert script.read_bytes() == AMP
        assert "train.py:1: amp already there" in done.out
        assert "0 files changed" in done.out

    @pytest.mark.parametrize(
        ("raw", "name"),
        [
            pytest.param(b"import torch\r\nx = 1\r\n", "train.py", id="CRLF"),
            pytest.param(b"import torch\nx = 1", "train.py", id="no final newline"),
            pytest.param(b"\xef\xbb\xbfimport torch\n", "train.py", id="a byte order mark"),
            pytest.param(b"# coding: latin-1\nimport torch\nx = '\xe9'\n", "a/tr\xe4in it.py", id="latin-1, odd name"),
        ],
    )
    def test_git_applies_the_diff(
        self, run: Run, capfdbinary: pytest.CaptureFixture[bytes], raw: bytes, name: str
    ) -> None:
        script = lay(name, raw)
        diff = subprocess.run(
            [sys.executable, fakes.__file__, "apply", name, "--amp", "--diff"],
            env={**os.environ, "PYTHONPATH": str(Path(fakes.__file__).parent.parent)},
            capture_output=True,
            check=True,
        ).stdout
        subprocess.run(["git", "init", "-q"], check=True)
        subprocess.run(["git", "apply", "-"], input=diff, check=True)
        patched = script.read_bytes()
        script.write_bytes(raw)
        run("apply", name, "--amp", "--yes")
        assert script.read_bytes() == patched != raw

    def test_diff_says_the_rest_on_stderr(self, run: Run) -> None:
        lay("train.py", SCRIPT + b"# NO compile\n")
        done = run("apply", "train.py", "--amp", "--compile", "--diff")
        assert (done.code, done.out.count("\n+")) == (0, 2)
        assert "compile declined: because of declined [compile.declined]" in done.err
        assert "nothing written" not in done.err

    def test_check_exits_1_when_something_would_change(self, run: Run) -> None:
        script = lay("train.py")
        done = run("apply", "train.py", "--amp", "--check")
        assert (done.code, script.read_bytes()) == (1, SCRIPT)
        assert "1 file would change" in done.out
        run("apply", "train.py", "--amp", "--yes")
        assert run("apply", "train.py", "--amp", "--check").code == 0

    def test_strict_exits_3_when_something_was_declined(self, run: Run) -> None:
        lay("train.py", b"import torch\n# NO amp\n")
        assert run("apply", "train.py", "--amp", "--yes").code == 0
        assert run("apply", "train.py", "--amp", "--yes", "--strict").code == 3
        assert run("apply", "train.py", "--compile", "--yes", "--strict").code == 0

    def test_symlinks_are_followed_and_kept(self, run: Run) -> None:
        script = lay("src/train.py")
        Path("link.py").symlink_to("src/train.py")
        done = run("apply", "link.py", "--amp", "--yes")
        assert Path("link.py").is_symlink()
        assert (done.code, script.read_bytes()) == (0, AMP)
        assert run("revert", "link.py").code == 0
        assert script.read_bytes() == SCRIPT

    def test_refuses_a_file_that_changes_in_the_meantime(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        script, other = lay("train.py"), lay("other.py")

        def patch_slowly(*arguments: Any) -> Any:
            script.write_bytes(b"# somebody's work\n")
            return fakes.fake_patch(*arguments)

        monkeypatch.setattr(patch, "patch", patch_slowly)
        done = run("apply", "train.py", "other.py", "--amp", "--yes")
        assert done.code == 123
        assert "speedpatch: train.py: was changed since it was read, nothing written" in done.err
        assert (script.read_bytes(), other.read_bytes()) == (b"# somebody's work\n", AMP)
        assert "1 file changed, 1 file failed" in done.out
        assert run("revert", ".").out == "other.py: reverted\n"

    @pytest.mark.parametrize(
        ("calls", "message"),
        [
            pytest.param(1, "the way back cannot be kept (no space left on device), nothing written", id="at once"),
            pytest.param(2, "train.py: cannot be written: no space left on device, the file is as it was", id="later"),
        ],
    )
    def test_a_full_disk_leaves_everything_as_it_was(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, calls: int, message: str
    ) -> None:
        left = iter(range(1, calls))

        def fail(*_: object) -> None:
            if next(left, None) is None:
                raise OSError(28, "No space left on device")

        script = lay("train.py")
        monkeypatch.setattr(os, "fsync", fail)
        done = run("apply", "train.py", "--amp", "--yes")
        assert (done.code, script.read_bytes()) == (123, SCRIPT)
        assert message in done.err
        assert "reverse patch" not in done.out


class TestPrograms:
    """A script and the local modules that are patched with it."""

    @pytest.fixture(autouse=True)
    def program(self, folder: Path) -> None:
        """A script in a folder, and a module that is patched with it."""
        lay("src/train.py", b"import torch\nimport engine\n"), lay("src/engine.py", b"# SHARED\n")

    def test_all_files_are_shown_and_written(self, run: Run) -> None:
        done = run("apply", "src/train.py", "--amp")
        assert done.out.count("--- a/src/train.py\n") == done.out.count("--- a/src/engine.py\n") == 1
        assert "2 files would change" in done.err
        done = run("apply", "src/train.py", "--amp", "--yes")
        assert "2 files changed\nto undo: speedpatch revert src/train.py src/engine.py (the" in done.out
        assert Path("src/engine.py").read_bytes() == b"# SHARED\n# amp float16\n"
        assert Path("src/train.py").read_bytes() == b"import torch\nimport engine\n# amp float16\n"
        assert run("apply", "src/train.py", "--amp", "--check").code == 0
        assert run("revert", "src").out == "src/engine.py: reverted\nsrc/train.py: reverted\n"
        assert Path("src/engine.py").read_bytes() == b"# SHARED\n"

    def test_a_change_of_a_module_alone_counts(self, run: Run) -> None:
        lay("src/train.py", b"import torch, engine\n# SHELL\n")
        assert run("apply", "src/train.py", "--amp", "--check").code == 1
        assert json.loads(run("apply", "src/train.py", "--amp", "--json").out)["files"] == [
            {"path": "src/train.py", "changed": False, "error": None},
            {"path": "src/engine.py", "changed": True, "error": None},
        ]

    def test_without_following_only_the_script_changes(self, run: Run) -> None:
        run("apply", "src/train.py", "--amp", "--yes", "--no-follow")
        assert Path("src/engine.py").read_bytes() == b"# SHARED\n"
        assert Path("src/train.py").read_bytes().endswith(b"# amp float16\n")

    def test_all_are_written_or_none(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "access", lambda path, _: not str(path).endswith("engine.py"))
        lay("other.py")
        done = run("apply", "src/train.py", "other.py", "--amp", "--yes")
        assert done.code == 123
        assert done.err == "speedpatch: src/engine.py: cannot be written: permission denied, the file is as it was\n"
        assert Path("src/train.py").read_bytes() == b"import torch\nimport engine\n"
        assert Path("other.py").read_bytes() == AMP
        assert "1 file changed, 1 file failed" in done.out


class TestStdin:
    """`-` as an editor's filter."""

    def test_writes_the_result_and_nothing_else(self, run: Run) -> None:
        done = run("apply", "-", "--amp", stdin=SCRIPT)
        assert (done.code, done.out.encode()) == (0, AMP)
        assert "-:1: amp applied" in done.err

    @pytest.mark.parametrize(
        "raw",
        [
            pytest.param(b"import torch\r\n# NO amp", id="declined"),
            pytest.param(b"x = 1\r\n", id="without torch"),
            pytest.param(b"", id="empty"),
        ],
    )
    def test_gives_back_what_it_does_not_change(self, run: Run, raw: bytes) -> None:
        done = run("apply", "-", "--amp", stdin=raw)
        assert (done.code, done.out.encode()) == (0, raw)

    def test_gives_nothing_when_it_fails(self, run: Run) -> None:
        done = run("apply", "-", "--amp", stdin=b"import torch\nx = (\n")
        assert (done.code, done.out) == (123, "")
        assert done.err == "speedpatch: -:2:5: '(' was never closed\n"

    def test_diff_check_and_json(self, run: Run) -> None:
        assert run("apply", "-", "--amp", "--diff", stdin=SCRIPT).out.startswith("--- a/stdin\n+++ b/stdin\n")
        assert run("apply", "-", "--amp", "--check", stdin=SCRIPT).code == 1
        assert json.loads(run("apply", "-", "--amp", "--json", stdin=SCRIPT).out)["files"][0]["path"] == "-"

    def test_goes_with_no_other_path(self, run: Run) -> None:
        assert run("apply", "-", "train.py", "--amp").code == 2


class TestSelection:
    """Which optimizations run."""

    def test_without_flags_what_is_exact_runs_and_the_rest_is_named(self, run: Run) -> None:
        lay("train.py", b"import torch\n# NO compile\n")
        done = run("apply", "train.py", "--yes")
        assert Path("train.py").read_bytes().endswith(b"# non-blocking on\n")
        assert "would apply too, at close to the same numbers: --amp (see" in done.out

    def test_the_configuration_comes_before_that(self, run: Run) -> None:
        lay("pyproject.toml", b'[tool.speedpatch]\noptimizations = ["amp"]\namp-dtype = "bfloat16"\n')
        script = lay("src/train.py")
        done = run("apply", "src", "--yes")
        assert script.read_bytes() == SCRIPT + b"# amp bfloat16\n"
        assert "would apply too" not in done.out

    def test_flags_come_before_the_configuration(self, run: Run) -> None:
        lay("pyproject.toml", b'[tool.speedpatch]\noptimizations = ["amp"]\n')
        script = lay("train.py")
        run("apply", "train.py", "--compile", "--yes")
        assert script.read_bytes() == SCRIPT + b"# compile on\n"

    def test_all_is_the_group_speed(self, run: Run) -> None:
        script = lay("train.py")
        run("apply", "train.py", "--all", "--yes")
        assert script.read_bytes() == AMP + b"# compile on\n# non-blocking on\n"

    def test_configured_runs_nothing_that_the_configuration_does_not_name(self, run: Run) -> None:
        script = lay("train.py")
        done = run("apply", "train.py", "--configured", "--yes")
        assert (done.code, script.read_bytes()) == (0, SCRIPT)
        assert "nothing was asked for" in done.out

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            pytest.param(["train.py", "--amp-dtype", "int8", "--amp"], "one of float16, bfloat16", id="no such value"),
            pytest.param(["train.py", "--amp-dtype", "bfloat16"], "does nothing without --amp", id="an idle option"),
            pytest.param(["train.py", "--target-torch", "1.13"], "nothing older than 2.4", id="too old a torch"),
            pytest.param(["train.py", "--diff", "--check"], "exclude each other", id="two actions"),
            pytest.param(["train.py", "--json", "--sarif"], "exclude each other", id="two forms"),
            pytest.param(["train.py", "--json", "--diff"], "--diff and --json exclude", id="two things on stdout"),
            pytest.param(["train.py", "--interactive"], "needs a terminal", id="nobody to ask"),
            pytest.param(["train.py", "--nope"], "No such option: --nope", id="an unknown flag"),
            pytest.param([], "Missing argument", id="no path"),
        ],
    )
    def test_wrong_usage_exits_2(self, run: Run, arguments: list[str], reason: str) -> None:
        script = lay("train.py")
        done = run("apply", *arguments)
        assert (done.code, done.out) == (2, "")
        assert reason in done.err
        assert script.read_bytes() == SCRIPT

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            pytest.param(b"[tool.speedpatch]\nflags = []\n", "pyproject.toml:2: unknown key `flags`", id="a key"),
            pytest.param(b"[tool.speedpatch]\noptimizations = ['x']\n", "no optimization is called x", id="a name"),
            pytest.param(b"[tool.speedpatch\n", "cannot be read as TOML", id="a broken file"),
        ],
    )
    def test_a_wrong_configuration_exits_2(self, run: Run, text: bytes, reason: str) -> None:
        lay("train.py"), lay("pyproject.toml", text)
        done = run("apply", "train.py", "--yes")
        assert (done.code, done.out) == (2, "")
        assert reason in done.err


class TestFailures:
    """One clear line, exit code 123, and the other files are still done."""

    @pytest.mark.parametrize(
        ("name", "raw", "reason"),
        [
            pytest.param("bad.py", b"import torch\nx = (\n", "bad.py:2:5: '(' was never closed", id="unparsable"),
            pytest.param("bad.py", b"import torch\n'\xe9'\n", "bad.py:2: not UTF-8 (byte 0xe9)", id="not UTF-8"),
            pytest.param("a.ipynb", b"{torch", "a.ipynb:1:2: is no notebook: no JSON, expecting", id="a bad notebook"),
            pytest.param("bad.txt", SCRIPT, "bad.txt: is not a Python script", id="another suffix"),
            pytest.param("bad.py", SCRIPT + b"# DEEP", "bad.py: nested too deeply to be analysed", id="deep nesting"),
            pytest.param(
                "bad.py",
                SCRIPT + b"# CRASH",
                "bad.py: internal error, the file is as it was: KeyError: 'what\\nwas I doing' at fakes.py:",
                id="a mistake of ours",
            ),
        ],
    )
    def test_one_line(self, run: Run, name: str, raw: bytes, reason: str) -> None:
        bad, script = lay(name, raw), lay("train.py")
        done = run("apply", name, "train.py", "--amp", "--yes")
        assert done.code == 123
        assert done.err.startswith(f"speedpatch: {reason}")
        assert done.err.count("\n") == 1
        assert (bad.read_bytes(), script.read_bytes()) == (raw, AMP)

    def test_a_missing_path(self, run: Run) -> None:
        done = run("apply", "none.py", "--amp")
        assert (done.code, done.out) == (123, "")
        assert "speedpatch: none.py: cannot be read: no such file or directory\n" in done.err

    def test_a_mistake_before_any_file(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail() -> None:
            raise RuntimeError("no codemods")

        monkeypatch.setattr(registry, "codemods", fail)
        done = run("list")
        assert (done.code, done.out) == (123, "")
        assert done.err.startswith("speedpatch: internal error, the file is as it was: RuntimeError: no codemods at ")

    def test_a_folder_goes_on_when_files_fail_and_workers_die(self, run: Run) -> None:
        for number in range(20):
            lay(f"train{number}.py")
        lay("crash.py", SCRIPT + b"# CRASH\n")
        lay("kill.py", SCRIPT + b"# KILL\n")
        done = run("apply", ".", "--amp", "--yes")
        assert done.code == 123
        assert "speedpatch: kill.py: internal error" in done.err
        assert "speedpatch: crash.py: internal error" in done.err
        assert done.err.count("\n") == 2
        assert all(Path(f"train{number}.py").read_bytes() == AMP for number in range(20))
        assert "20 files changed, 2 files failed" in done.out

    def test_whoever_closes_the_pipe_gets_no_traceback(self, folder: Path) -> None:
        for number in range(400):
            lay(f"train{number}.py")
        child = subprocess.Popen(
            [sys.executable, fakes.__file__, "apply", ".", "--amp", "--diff"],
            env={**os.environ, "PYTHONPATH": str(Path(fakes.__file__).parent.parent)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert child.stdout is not None and child.stderr is not None
        child.stdout.read(10)
        child.stdout.close()
        error = child.stderr.read()
        child.stderr.close()
        assert child.wait() == 141
        assert error == b""


class TestReports:
    """Everything asked for is told."""

    def test_every_status_has_its_line(self, run: Run) -> None:
        lay("train.py", b"import torch\n# NO compile\n# amp float16\n")
        done = run("apply", "train.py", "--amp", "--compile", "--prune", "--check")
        assert done.out.splitlines() == [
            "train.py:1: amp already there: because of already [amp.already]",
            "train.py:1: compile declined: because of declined [compile.declined]",
            "train.py:1: prune would be applied: because of applied (changed)",
            "1 file would change",
        ]

    @pytest.mark.parametrize(
        ("name", "raw", "line"),
        [
            pytest.param("a.py", b"", "amp not applicable: the file does not mention torch [amp.no-torch]", id="empty"),
            pytest.param("a.py", b"print 1\n", "amp not applicable: the file does not mention torch", id="no torch"),
            pytest.param("a.ipynb", b"{}", "amp not applicable: the file does not mention torch", id="notebook"),
        ],
    )
    def test_what_needs_no_look_is_told_all_the_same(self, run: Run, name: str, raw: bytes, line: str) -> None:
        lay(name, raw)
        done = run("apply", name, "--amp", "--yes")
        assert done.code == 0
        assert f"{name}:1: {line}" in done.out

    def test_of_many_files_only_what_needs_an_eye_is_told(self, run: Run) -> None:
        for number in range(11):
            lay(f"model{number}.py", b"import torch\n# NOTHING\n")
        lay("train.py"), lay("util.py", b"x = 1\n")
        done = run("apply", ".", "--amp", "--check")
        assert done.out == (
            "train.py:1: amp would be applied: because of applied (close)\n1 file would change, 1 file without torch\n"
        )

    def test_json_is_all_there_is_on_stdout(self, run: Run) -> None:
        lay("train.py"), lay("bad.py", b"import torch\n(\n")
        done = run("apply", "train.py", "bad.py", "--amp", "--json")
        assert done.code == 123
        assert json.loads(done.out) == {
            "version": 1,
            "files": [
                {"path": "train.py", "changed": True, "error": None},
                {"path": "bad.py", "changed": False, "error": "bad.py:2:1: '(' was never closed"},
            ],
            "outcomes": [
                {
                    "codemod": "amp",
                    "status": "applied",
                    "code": "amp.applied",
                    "path": "train.py",
                    "line": 1,
                    "reason": "because of applied",
                    "parity": "close",
                }
            ],
        }
        assert "nothing written: use --yes to write" in done.err

    def test_json_with_yes_writes(self, run: Run) -> None:
        script = lay("train.py")
        done = run("apply", "train.py", "--amp", "--json", "--yes")
        assert json.loads(done.out)["files"] == [{"path": "train.py", "changed": True, "error": None}]
        assert script.read_bytes() == AMP

    def test_sarif(self, run: Run) -> None:
        lay("a b/train.py", b"import torch\n# NO compile\n"), lay("bad.py", b"import torch\n(\n")
        log = json.loads(run("apply", ".", "--amp", "--compile", "--sarif").out)
        (sarif,) = log["runs"]
        assert log["version"] == "2.1.0"
        assert [rule["id"] for rule in sarif["tool"]["driver"]["rules"]] == ["amp.applied", "compile.declined"]
        assert [(item["ruleId"], item["level"]) for item in sarif["results"]] == [
            ("amp.applied", "warning"),
            ("compile.declined", "note"),
        ]
        place = sarif["results"][0]["locations"][0]["physicalLocation"]
        assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("a%20b/train.py", 1)
        assert sarif["invocations"][0]["executionSuccessful"] is False


class TestRevert:
    """The way back."""

    def test_a_folder(self, run: Run) -> None:
        scripts = [lay("a/train.py"), lay("b/train.py"), lay("never.py")]
        run("apply", "a", "b", "--amp", "--yes")
        done = run("revert", ".")
        assert (done.code, done.out) == (0, "a/train.py: reverted\nb/train.py: reverted\n")
        assert all(script.read_bytes() == SCRIPT for script in scripts)
        assert run("revert", "a/train.py").out == "a/train.py: is as it was before speedpatch already\n"

    def test_refuses_what_was_changed_since(self, run: Run) -> None:
        script = lay("train.py")
        run("apply", "train.py", "--amp", "--yes")
        script.write_bytes(b"mine\n")
        done = run("revert", "train.py")
        assert (done.code, script.read_bytes()) == (123, b"mine\n")
        assert "was changed since speedpatch wrote it, nothing written: try `git apply --3way " in done.err

    def test_names_what_was_written_with_it(self, run: Run) -> None:
        lay("train.py", b"import torch, engine\n"), lay("engine.py", b"# SHARED\n")
        assert "to undo: speedpatch revert train.py engine.py (" in run("apply", "train.py", "--amp", "--yes").out
        done = run("revert", "train.py")
        assert done.out.startswith("train.py: reverted\nwritten by the same run, and left as they are: engine.py (sp")
        assert run("revert", "engine.py").out == "engine.py: reverted\n"

    def test_several_files_that_cannot_all_be_written(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        scripts = [lay("a.py"), lay("b.py")]
        run("apply", ".", "--amp", "--yes")
        monkeypatch.setattr(os, "access", lambda path, _: not str(path).endswith("a.py"))
        done = run("revert", ".")
        assert (done.code, done.out) == (123, "b.py: reverted\n")
        assert "a.py: cannot be written: permission denied" in done.err
        assert [script.read_bytes() for script in scripts] == [AMP, SCRIPT]

    def test_nothing_to_revert(self, run: Run) -> None:
        lay("train.py")
        assert run("revert", "train.py").code == 123
        assert "nothing to revert" in run("revert", ".").out


class TestScreens:
    """Help for 80 by 24."""

    def test_main_help_fits(self, run: Run) -> None:
        done = run("--help")
        check_fits(done.out)
        assert "speedpatch apply train.py --amp --compile" in done.out

    def test_help_of_the_real_codemods_fits(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        for command in ("apply", "scan"):
            monkeypatch.setattr(sys, "argv", ["speedpatch", command, "--help"])
            with pytest.raises(SystemExit):
                main()
            check_fits(capfd.readouterr().out)

    def test_list_and_explain(self, run: Run) -> None:
        assert "--amp           speed  close    2.4  the summary of amp\n" in run("list").out
        explained = run("explain", "amp").out
        assert "option: --amp-dtype float16|bfloat16\n" in explained
        assert "A registry and a heart of few words" in explained
        done = run("explain", "nope")
        assert (done.code, done.err) == (
            2,
            "speedpatch: no optimization and no code is called nope: see `speedpatch list`\n",
        )

    def test_explains_codes(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("speedpatch.reasons.reasons_of", lambda item: WORDS if item.name == "amp" else {})
        done = run("explain", "amp.odd")
        assert done.out == EXPLAINED
        check_fits(done.out)
        for asked, near in {"amp.od": "amp.odd or amp", "odd": "amp.odd", "apm": "amp"}.items():
            done = run("explain", asked)
            message = f"speedpatch: no optimization and no code is called {asked}: did you mean {near}?\n"
            assert (done.code, done.err) == (2, message)

    def test_version(self, run: Run) -> None:
        assert run("--version").out.startswith("speedpatch 0.")


WORDS = {"amp.odd": ("it is odd", "<...> is odd: even it out")}
EXPLAINED = """\
amp.odd: why --amp leaves a script or a model alone

- it is odd
- <...> is odd
  what to do: even it out

<...> stands for what your script has there: the message names it, and the line.

More: `speedpatch explain amp`, docs/amp.md (When it declines)
"""


def check_fits(text: str) -> None:
    """A text fits a terminal of 80 by 24, the prompt below it included."""
    lines = text.rstrip("\n").split("\n")
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
