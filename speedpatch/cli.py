"""The command line: what can be typed, handed on to what does it."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from speedpatch import __version__, registry
from speedpatch.codemod import Options
from speedpatch.config import UsageError, parse_choice, parse_target
from speedpatch.screens import (
    apply_screen,
    explain_screen,
    list_screen,
    main_screen,
    nothing_called,
    reason_screen,
    scan_screen,
)
from speedpatch.selection import Request

FLAGGED = ("apply", "scan")


class Commands(TyperGroup):
    """The commands; those that take a flag for every optimization are built when they are called."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by name."""
        if cmd_name not in FLAGGED:
            return super().get_command(ctx, cmd_name)
        alone = typer.Typer(add_completion=False)
        function, screen = (apply_command, ApplyCommand) if cmd_name == "apply" else (scan_command, ScanCommand)
        alone.command(cmd_name, cls=screen)(with_flags(function))
        return typer.main.get_command(alone)

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, for completion and for suggestions."""
        return [*FLAGGED, *super().list_commands(ctx)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """One screen."""
        formatter.write(main_screen())


class ApplyCommand(TyperCommand):
    """`apply`, with help that fits a screen."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """One screen."""
        formatter.write(apply_screen())


class ScanCommand(TyperCommand):
    """`scan`, with help that fits a screen."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """One screen."""
        formatter.write(scan_screen())


app = typer.Typer(
    cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        print(f"speedpatch {__version__}")
        raise typer.Exit


@app.callback()
def options_of_all(
    version: bool = typer.Option(False, "--version", callback=show_version, is_eager=True, help="Show the version."),
) -> None:
    """Make an existing PyTorch training script train faster by editing its source."""


PATHS = typer.Argument(..., metavar="PATH...", help="Scripts, folders, or - for standard input.")


def apply_command(
    paths: list[str] = PATHS,
    everything: bool = typer.Option(False, "--all"),
    diff: bool = typer.Option(False, "--diff"),
    check: bool = typer.Option(False, "--check"),
    yes: bool = typer.Option(False, "--yes", "-y"),
    interactive: bool = typer.Option(False, "--interactive", "-i"),
    json: bool = typer.Option(False, "--json"),
    sarif: bool = typer.Option(False, "--sarif"),
    strict: bool = typer.Option(False, "--strict"),
    configured: bool = typer.Option(False, "--configured"),
    no_follow: bool = typer.Option(False, "--no-follow"),
    **flags: Any,
) -> None:
    """Edit scripts: show the diff, ask, write."""
    from speedpatch.apply import Output, apply

    actions = {"--diff": diff, "--check": check, "--yes": yes, "--interactive": interactive}
    action = only_one(actions) or "show"
    form = only_one({"--json": json, "--sarif": sarif}) or "text"
    only_one({"--diff": diff, "--interactive": interactive, form: form != "text"})
    names = {"--diff": "diff", "--check": "check", "--yes": "write"}
    output = Output(names.get(action, "show"), form.lstrip("-"), interactive, strict)  # type: ignore[arg-type]
    request = Request(flag_names(flags), everything, configured, flag_options(flags))
    finish(lambda: apply(list(map(Path, paths)), request, output, not no_follow))


def scan_command(
    paths: list[str] = PATHS,
    json: bool = typer.Option(False, "--json"),
    no_follow: bool = typer.Option(False, "--no-follow"),
    **flags: Any,
) -> None:
    """Say what is there, what could be gained and what would be declined."""
    from speedpatch.scan import scan

    finish(lambda: scan(list(map(Path, paths)), flag_names(flags), flag_options(flags), json, not no_follow))


@app.command("list")
def list_command() -> None:
    """List the optimizations."""
    print(list_screen())


@app.command("explain")
def explain_command(name: str = typer.Argument(..., metavar="NAME")) -> None:
    """Say what an optimization does and when it declines, or what the code at the end of a message means."""
    codemod = registry.codemods().get(name)
    if codemod is not None:
        print(explain_screen(codemod))
        return
    from speedpatch.reasons import reasons_of

    owner = registry.codemods().get(name.partition(".")[0])
    reasons = reasons_of(owner).get(name) if owner is not None else None
    if owner is None or reasons is None:
        fail(nothing_called(name))
    print(reason_screen(owner, name, reasons))


@app.command("revert")
def revert_command(paths: list[str] = typer.Argument(..., metavar="PATH...")) -> None:  # noqa: B008
    """Put back what speedpatch changed."""
    from speedpatch.revert import revert

    finish(lambda: revert(list(map(Path, paths))))


def with_flags(function: Callable[..., None]) -> Callable[..., None]:
    """The command with a flag for every optimization and for every option of one."""

    def command(**values: Any) -> None:
        function(**values)

    signature = inspect.signature(function, eval_str=True)
    own = [item for item in signature.parameters.values() if item.kind is not inspect.Parameter.VAR_KEYWORD]
    flags = [parameter(name, bool, False, name) for name in registry.codemods()]
    hints = get_type_hints(Options)
    flags += [parameter(option.name, value_type(hints[option.name]), None, option.name) for option in fields(Options)]
    parameters = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in [*own, *flags]]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {item.name: item.annotation for item in parameters}
    command.__doc__ = function.__doc__
    return command


def parameter(name: str, kind: Any, default: Any, flag: str) -> inspect.Parameter:
    """One flag of a command."""
    option = typer.Option(default, f"--{flag.replace('_', '-')}")
    identifier = f"flag_{name.replace('-', '_')}"
    return inspect.Parameter(identifier, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind)


def value_type(hint: Any) -> Any:
    """What a flag of an option takes: numbers and switches as they are, all else as text that we check."""
    alternatives = {hint, *get_args(hint)} if get_origin(hint) is not tuple else {hint}
    return bool | None if bool in alternatives else int | None if int in alternatives else str | None


def flag_names(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """The optimizations whose flag was given."""
    return tuple(name for name in registry.codemods() if flags.get(f"flag_{name.replace('-', '_')}"))


def flag_options(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, checked."""
    given = {item.name: flags.get(f"flag_{item.name}") for item in fields(Options)}
    return {name: parse_flag(name, value) for name, value in given.items() if value is not None}


def parse_flag(name: str, value: Any) -> Any:
    """The value of one option."""
    flag = f"--{name.replace('_', '-')}"
    try:
        return parse_target(flag, value) if name == "target_torch" else parse_choice(flag, name, value)
    except UsageError as error:
        fail(str(error))


def only_one(flags: Mapping[str, bool]) -> str | None:
    """The one flag that was given of those that exclude each other."""
    given = [flag for flag, is_given in flags.items() if is_given]
    if len(given) > 1:
        fail(f"{given[0]} and {given[1]} exclude each other")
    return given[0] if given else None


def finish(work: Callable[[], int]) -> None:
    """Do the work and leave with its exit code."""
    try:
        code = work()
        sys.stdout.flush()
    except UsageError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not flush into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(141) from None
    raise typer.Exit(code)


def fail(message: str) -> NoReturn:
    """Leave with one line on wrong usage."""
    print(f"speedpatch: {message}", file=sys.stderr)
    raise typer.Exit(2)
