"""Compile each trained model in place, behind its set-up and before any wrapper.

`model.compile()` traces the forward pass at its first call and fuses it, and its backward pass, into few kernels:
https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.compile. Compiled in place, the
model stays the object that it was: checkpoints keep their keys, `isinstance` and attributes go on to work.

Declines where compiling breaks a program (gradients of gradients, retained graphs, hooks, tracing, DataParallel),
where it would compile again and again (values that change each call, data-dependent control flow), and where it
cannot gain (recurrent models, other methods than forward doing the work, tiny models without a loader).
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from speedpatch.codemod import Codemod, Finding, Gain, Options
from speedpatch.edits import Edit, Insert
from speedpatch.facts import Facts
from speedpatch.facts.setup import NotReady, Ready, end
from speedpatch.facts.values import Value

from .context import Compile
from .gains import find_losses
from .models import find_model_hazards
from .presence import not_for_us
from .programs import find_late_tracing, find_program_hazards


def plan(facts: Facts, options: Options) -> Iterable[Edit | Finding]:
    """A line for each model that is trained, or the findings that say why there is none."""
    program = Compile(facts, options)
    refusal = [*not_for_us(program)]
    if refusal:
        return refusal
    hazards = {model: hazard for model in program.models if (hazard := find_hazard(program, model)) is not None}
    refusal = [*find_program_hazards(program)]
    found = said_once([*refusal, *hazards.values()])
    if refusal:
        return found
    return [*found, *compile_models(program, [model for model in program.models if model not in hazards])]


def said_once(findings: Iterable[Finding]) -> list[Finding]:
    """The first place of each reason, where the same words do for all; and one word on a tiny model's loop."""
    found: dict[object, Finding] = {}
    for finding in findings:
        each = finding.code.startswith("compile.model-")
        tiny = finding.code.startswith("compile.tiny-")
        place = (finding.path, finding.line)
        key: object = (
            (finding.code, finding.reason, place) if each else place if tiny else (finding.code, finding.reason)
        )
        found.setdefault(key, finding)
    return list(found.values())


def find_hazard(program: Compile, model: Value) -> Finding | None:
    """The first reason not to compile a model, if there is one."""
    return next(chain(find_model_hazards(program, model), find_losses(program, model)), None)


def compile_models(program: Compile, models: Sequence[Value]) -> Iterator[Edit | Finding]:
    """The calls for models that nothing speaks against, where each is ready."""
    set_up = program.set_up(models)
    found: list[Ready] = []
    for model in models:
        places = set_up.ready(model)
        if isinstance(places, NotReady):
            yield refuse(program, places)
        elif (late := next(find_late_tracing(program, model, places), None)) is not None:
            yield late
        else:
            found += places
    yield from insert_calls(program, found)


def refuse(program: Compile, problem: NotReady) -> Finding:
    """Why there is no place for the call."""
    if problem.kind == "elsewhere":
        return program.declined(
            "model-elsewhere",
            problem.node,
            "the model is made in a file that may not be edited, or by code that this run does not get to: write "
            "model.compile() behind the line that makes it",
        )
    if problem.kind == "unbound":
        return program.declined(
            "model-unbound", problem.node, "the model has no name where it is made: assign it to a variable first"
        )
    if problem.kind == "many":
        return program.declined(
            "model-many",
            problem.node,
            "many models are made here: write model.compile() behind the line that makes one of them",
        )
    if problem.kind == "several":
        return program.declined(
            "model-several",
            problem.node,
            "the model is made in several places: make it in one function that all of them call",
        )
    return program.declined(
        "model-uncertain",
        problem.node,
        "this name may also stand for something that is not compiled: give the model that is trained a name of its own",
    )


def insert_calls(program: Compile, found: Iterable[Ready]) -> Iterator[Edit | Finding]:
    """The calls, once for each name at each place, and what there is to say of them."""
    together: dict[tuple[ast.stmt, str], list[Ready]] = defaultdict(list)
    for place in dict.fromkeys(found):
        together[place.anchor, place.where].append(place)
    mode = program.options.compile_mode
    arguments = f'mode="{mode}"' if mode else ""
    for places in sorted(together.values(), key=lambda places: end(places[0].anchor)):
        anchor, where = places[0].anchor, places[0].where
        text = "\n".join(f"{place.path}.compile({arguments})" for place in places)
        yield Insert(program.facts.path(anchor), anchor, where, text)
        for place in places:
            side = "behind" if where == "after" else "before"
            yield program.finding("applied", "compile", anchor, f"{place.path} is compiled in place {side} this line")


CODEMOD = Codemod(
    name="compile",
    group="speed",
    stage="compile",
    summary="compile the trained models in place (model.compile)",
    since="2.4",
    parity="close",
    needs="a C++ compiler, and Triton on a GPU",
    docs="compile.md",
    plan=plan,
    options=("compile_mode",),
    gain=Gain(
        low=1.3,
        high=2,
        text="30 % to 2 times on GPUs with tensor cores",
        source="https://github.com/pytorch/pytorch/issues/93794",
    ),
)
