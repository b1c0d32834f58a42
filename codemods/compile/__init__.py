"""Compile each trained model in place, behind its set-up and before any wrapper.

`model.compile()` traces the forward pass at its first call and fuses it, and its backward pass, into few kernels:
https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.compile. Compiled in place, the
model stays the object that it was: checkpoints keep their keys, `isinstance` and attributes go on to work.

Declines where compiling breaks a program (gradients of gradients, retained graphs, hooks, tracing, DataParallel),
where it would compile again and again (values that change each call, data-dependent control flow), and where it
cannot gain (recurrent models, other methods than forward doing the work, tiny models without a loader).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from speedpatch.codemod import Codemod, Finding, Options
from speedpatch.edits import Edit, Insert
from speedpatch.facts import Facts
from speedpatch.facts.reach import Obstacle
from speedpatch.facts.setup import Ready, end
from speedpatch.facts.values import Value

from .context import Compile
from .gains import find_losses
from .models import find_model_hazards
from .presence import not_for_us
from .programs import find_program_hazards


def plan(facts: Facts, options: Options) -> Iterable[Edit | Finding]:
    """A line for each model that is trained, or the findings that say why there is none."""
    program = Compile(facts, options)
    refusal = [*not_for_us(program)] or [*find_program_hazards(program)]
    if refusal:
        return refusal
    found = {model: judge(program, model) for model in program.models}
    return [*(item for item in found.values() if isinstance(item, Finding)), *insert_calls(program, found)]


def judge(program: Compile, model: Value) -> Ready | Finding:
    """Where to compile a model, or why not to."""
    for finding in [*find_model_hazards(program, model), *find_losses(program, model)]:
        return finding
    place = program.set_up.ready(model)
    return program.declined(place.code, place.node, place.reason) if isinstance(place, Obstacle) else place


def insert_calls(program: Compile, found: dict[Value, Ready | Finding]) -> Iterator[Edit | Finding]:
    """The calls, once for each name at each place, and what there is to say of them."""
    places: dict[int, list[Ready]] = defaultdict(list)
    for place in found.values():
        if isinstance(place, Ready) and place not in places[id(place.anchor)]:
            places[id(place.anchor)].append(place)
    mode = program.options.compile_mode
    arguments = f'mode="{mode}"' if mode else ""
    for together in sorted(places.values(), key=lambda items: end(items[0].anchor)):
        anchor = together[0].anchor
        text = "\n".join(f"{place.path}.compile({arguments})" for place in together)
        yield Insert(program.facts.path(anchor), anchor, "after", text)
        for place in together:
            yield program.finding("applied", "compile", anchor, f"{place.path} is compiled in place behind this line")


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
)
