"""Move a script's statements from module level into a function."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from tests.metamorphic.renaming import REFLECTION
from tests.metamorphic.scopes import Scopes, Use, defaults, head_annotations
from tests.metamorphic.text import (
    NotApplicable,
    Text,
    free_name,
    indentation,
    indentation_unit,
    reindent,
    with_newline,
)


@dataclass(frozen=True)
class Chunk:
    """A top-level statement with the comments above it: lines first..last (from 1)."""

    statements: tuple[ast.stmt, ...]
    first: int
    last: int

    @property
    def statement(self) -> ast.stmt:
        """The first of them; there are several only for `a; b`."""
        return self.statements[0]


def into_main(text: str) -> str:
    """The script with what it does moved into a function, called under a guard; imports, defs and classes stay."""
    source, tree = Text(text), ast.parse(text)
    scopes = Scopes(source, tree)
    uses = scopes.uses
    if any(use.scope is None and use.name in REFLECTION for use in uses):
        raise NotApplicable("the program looks at its own variables")
    chunks = list(split(source, tree))
    guards = [chunk for chunk in chunks if is_guard(chunk.statement)]
    stays = {chunk for chunk in chunks if chunk not in guards and stays_outside(chunk, uses, scopes)}
    moved = [chunk for chunk in chunks if chunk not in stays]
    if not [chunk for chunk in moved if chunk not in guards]:
        raise NotApplicable("nothing stands at module level")
    check_order(chunks, stays)
    check_definitions(stays, moved, uses, scopes)
    unit = guard_unit(source, guards) or indentation_unit(source, tree)
    name = free_name(text, "main", "run_script", "run_program")
    outside = [line for chunk in chunks if chunk in stays for line in source.lines[chunk.first - 1 : chunk.last]]
    body = [line for chunk in moved for line in body_lines(source, chunk, unit)]
    shared = sorted(shared_names(moved, uses, scopes))
    head = ["", "", f"def {name}():", *([f"{unit}global {', '.join(shared)}"] if shared else [])]
    foot = ["", "", 'if __name__ == "__main__":', f"{unit}{name}()"]
    opening, ending = ([line + source.newline for line in part] for part in (head, foot))
    rest = source.lines[chunks[-1].last :]
    body = [*body, *[unit + line if line.strip() else line for line in rest]]
    header = source.lines[: chunks[0].first - 1]
    lines = [*header, *with_newline(outside, source.newline), *opening, *with_newline(body, source.newline), *ending]
    result = "".join(lines)
    compile(result, "<into_main>", "exec")
    return result


def split(source: Text, tree: ast.Module) -> Iterable[Chunk]:
    """The top-level statements as blocks of lines; comments at the head of the file belong to none."""
    previous, index = header_lines(source, tree), 0
    while index < len(tree.body):
        together = [tree.body[index]]
        while index + len(together) < len(tree.body):
            following = tree.body[index + len(together)]
            if following.lineno != together[-1].end_lineno:
                break
            together.append(following)
        last = together[-1].end_lineno or 0
        yield Chunk(tuple(together), previous + 1, last)
        previous, index = last, index + len(together)


def header_lines(source: Text, tree: ast.Module) -> int:
    """How many lines at the top are comments, up to the first that is none."""
    count = 0
    while count < tree.body[0].lineno - 1 and source.lines[count].startswith("#"):
        count += 1
    return count


def is_guard(statement: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`."""
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def stays_outside(chunk: Chunk, uses: list[Use], scopes: Scopes) -> bool:
    """Whether a statement is a definition, an import or a constant that is bound once."""
    for statement in chunk.statements:
        body = statement.body if isinstance(statement, ast.Try) else []
        imports = any(isinstance(part, ast.Import | ast.ImportFrom) for part in body)
        kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not (imports or docstring or isinstance(statement, kinds) or is_constant(statement, uses, scopes)):
            return False
    return True


def is_constant(statement: ast.stmt, uses: list[Use], scopes: Scopes) -> bool:
    if not isinstance(statement, ast.Assign) or not all(isinstance(target, ast.Name) for target in statement.targets):
        return False
    try:
        ast.literal_eval(statement.value)
    except ValueError:
        return False
    names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return all(sum(binds(use, name, scopes) for use in uses) == 1 for name in names)


def binds(use: Use, name: str, scopes: Scopes) -> bool:
    """Whether a use binds a module's variable; a `global` statement counts, for what follows it."""
    stored = not isinstance(getattr(use.node, "ctx", ast.Store()), ast.Load)
    return use.name == name and use.scope is scopes.module and stored


def check_order(chunks: list[Chunk], stays: set[Chunk]) -> None:
    """Refuse what an import could depend on: the import would come first."""
    effect = False
    for chunk in chunks:
        if effect and any(isinstance(part, ast.Import | ast.ImportFrom) for part in chunk.statements):
            raise NotApplicable("an import follows a statement that it may depend on")
        effect = effect or chunk not in stays


def check_definitions(stays: set[Chunk], moved: list[Chunk], uses: list[Use], scopes: Scopes) -> None:
    """Refuse definitions that need a moved variable when they are made, not when they are called."""
    names = {use.name for use in uses if binds(use, use.name, scopes) and within(use, moved)}
    for chunk in stays:
        for statement in chunk.statements:
            for expression in evaluated_at_once(statement):
                if names & {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}:
                    raise NotApplicable("a definition needs a variable of the script")


def evaluated_at_once(statement: ast.stmt) -> list[ast.AST]:
    """What runs when a definition is made."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return [*statement.decorator_list, *defaults(statement.args), *head_annotations(statement)]
    if isinstance(statement, ast.ClassDef):
        parts = [part for inner in statement.body for part in evaluated_at_once(inner)]
        return [*statement.decorator_list, *statement.bases, *statement.keywords, *parts]
    return [statement]


def within(use: Use, chunks: list[Chunk]) -> bool:
    """Whether a use stands in one of the blocks."""
    line = getattr(use.node, "lineno", 0)
    return any(chunk.first <= line <= chunk.last for chunk in chunks)


def shared_names(moved: list[Chunk], uses: list[Use], scopes: Scopes) -> set[str]:
    """Module variables that moved statements bind and that something outside needs too."""
    bound = {use.name for use in uses if binds(use, use.name, scopes) and within(use, moved)}
    needed = {use.name for use in uses if use.scope is scopes.module and not within(use, moved)}
    return bound & needed


def guard_unit(source: Text, guards: list[Chunk]) -> str | None:
    """The indentation of the guard's body, which becomes the function's."""
    if not guards:
        return None
    statement = guards[0].statement
    assert isinstance(statement, ast.If)
    if len(guards) > 1 or statement.orelse or statement.body[0].lineno == statement.lineno:
        raise NotApplicable("an unusual guard")
    return indentation(source, statement.body[0].lineno)


def body_lines(source: Text, chunk: Chunk, unit: str) -> list[str]:
    """A block as part of the function; a guard loses its own line."""
    statement = chunk.statement
    if not is_guard(statement):
        return with_newline(reindent(source, chunk.first, chunk.last, "", unit), source.newline)
    above = reindent(source, chunk.first, statement.lineno - 1, "", unit)
    return [*above, *with_newline(source.lines[statement.lineno : chunk.last], source.newline)]
