"""Run the forward pass and the loss in half precision, with loss scaling.

Tensor cores multiply float16 and bfloat16 several times as fast as float32, and activations take half the
memory: https://docs.pytorch.org/docs/stable/amp.html. `torch.autocast` goes around the forward pass and the loss
of each step and around evaluation batches, never around the backward pass. For float16, one
`torch.amp.GradScaler` a run is made beside the optimizer and reaches every loop that uses it.

Declines where gradients cannot be scaled (LBFGS, gradient penalties, updates by hand), where the program already
has another precision, and, for float16, where it never leaves the CPU.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from speedpatch.codemod import Codemod, Finding, Gain, Options
from speedpatch.edits import AddParameter, Edit, Insert, Replace, Wrap
from speedpatch.facts import Facts
from speedpatch.facts.devices import bound_before, find_device, find_moves, moved_before, receiver
from speedpatch.facts.evaluate import dotted
from speedpatch.facts.reach import Home, Obstacle, Reach
from speedpatch.facts.setup import behind_compiles
from speedpatch.facts.sites import Backward
from speedpatch.facts.slices import Region
from speedpatch.facts.values import Derived, Member

from .checkpoints import restored_elsewhere, save_and_load, saved_alone
from .context import Amp
from .enabled import Enabled
from .gradients import scale_steps
from .hazards import find_hazards, manual_updates
from .leaks import find_leaks
from .regions import Regions, find_regions, left_out
from .scaler import find_reach


def plan(facts: Facts, options: Options) -> Iterable[Edit | Finding]:
    """Edits for the whole program, or the findings that say why there are none."""
    amp = Amp(facts, options, find_device(facts))
    refusal = [*not_for_us(amp)] or [*find_hazards(amp)]
    if refusal:
        return refusal
    regions = find_regions(amp)
    if isinstance(regions, Finding):
        return [regions]
    notes = [*what_stays(amp, regions)]
    edits = list(rewrite(amp, regions, notes))
    refusal = [item for item in edits if isinstance(item, Finding)] or [*unread_code(amp, edits)]
    return refusal or [*edits, *amp.imports.values(), applied(amp, regions, notes)]


TRAINING = re.compile(r"\.(backward|step|zero_grad)\s*\(")


def unread_code(amp: Amp, edits: list[Edit | Finding]) -> Iterator[Finding]:
    """Code that is not read, as behind `%time`, and trains, or calls a function whose parameters change."""
    names = [re.escape(edit.function.name) for edit in edits if isinstance(edit, AddParameter)]
    calls = re.compile(rf"\b({'|'.join(names)})\s*\(") if names else None
    for module in amp.facts.modules:
        for cell, text in module.source.unread() if amp.half else ():
            if TRAINING.search(text) or (calls is not None and calls.search(text)):
                reason = (
                    f"cell {cell} trains in code that is not read: take the magic off that line, or correct the cell"
                )
                yield Finding("declined", "amp.unread", str(module.source.path), 1, reason)
                return


def what_stays(amp: Amp, regions: Regions) -> Iterator[str]:
    """What is said of forwards that stay in float32."""
    script = [call for call in left_out(amp, regions) if amp.facts.in_script(call)]
    lines = sorted({amp.facts.line(call) for call in script})
    if lines:
        named = ", ".join(map(str, lines[:3])) + (", ..." if len(lines) > 3 else "")
        yield f"still in float32: the model in line{'s' if len(lines) > 1 else ''} {named}"


def not_for_us(amp: Amp) -> Iterator[Finding]:
    """Programs that this codemod has nothing to do in."""
    sites = amp.facts.sites
    script = str(amp.facts.script.source.path)
    if amp.facts.engine is not None:
        engine, switch = amp.facts.engine
        yield Finding(
            "not_applicable",
            "amp.engine",
            str(amp.facts.path(engine)),
            amp.facts.line(engine),
            f"another engine runs the training: {switch}",
        )
    elif sites.amp_uses:
        node = sites.amp_uses[0]
        yield Finding(
            "already",
            "amp.already",
            str(amp.facts.path(node)),
            amp.facts.line(node),
            "the program uses mixed precision already",
        )
    elif (
        not sites.backwards
        and sites.steps
        and (call := next((call for call in sites.calls if "torch.autograd.grad" in sites.callee(call)), None))
    ):
        yield amp.declined(
            "autograd-grad",
            call,
            "gradients come from torch.autograd.grad and are handed to the optimizer by other ways than backward()",
        )
    elif not sites.backwards:
        yield Finding(
            "not_applicable", "amp.no-training", script, 1, "no backward pass found: this file trains nothing by itself"
        )
    elif (frozen := next((site for site in sites.backwards if not amp.facts.is_editable(site.call)), None)) is not None:
        yield amp.declined("other-file", frozen.call, "the training loop is in a protected file")
    elif amp.device.kind == "cpu" and amp.half:
        yield amp.declined(
            "cpu-only",
            sites.backwards[0].call,
            "the program never leaves the CPU, where float16 gains nothing: move the model and its batches to a GPU, "
            "or use --amp-dtype bfloat16",
        )
    elif not sites.steps and (call := unknown_step(amp)) is not None:
        yield amp.declined(
            "optimizer-elsewhere",
            call,
            "what steps here could not be followed to an optimizer: build it from torch.optim in this program",
        )
    elif not sites.steps and not any(manual_updates(amp)):
        yield Finding(
            "not_applicable",
            "amp.no-step",
            script,
            amp.facts.line(sites.backwards[0].call),
            "gradients are computed but no optimizer steps",
        )


def unknown_step(amp: Amp) -> ast.Call | None:
    """A call of `step` on something that may be an optimizer."""
    schedules = {step.call for step in amp.facts.sites.scheduler_steps}
    for call in amp.facts.sites.attribute_calls("step"):
        values = amp.facts.values(call.func.value)  # type: ignore[attr-defined]
        unknown = [value for value in values if isinstance(value, (Member, Derived))]
        engine = any("backward" in amp.facts.state.uses.get(value, ()) for value in unknown)
        if unknown and not engine and call not in schedules and not call.args:
            return call
    return None


def rewrite(amp: Amp, regions: Regions, notes: list[str]) -> Iterator[Edit | Finding]:
    """Every edit; a finding among them means that none may be made. `notes` gets what is left for the user to do."""
    reach: Reach | None = None
    if amp.half:
        found = find_reach(amp, scaler_users(amp))
        if isinstance(found, Finding):
            yield found
            return
        reach = found
        yield from scale_backwards(amp, regions, reach)
        yield from scale_steps(amp, reach)
        yield from save_and_load(amp, reach)
        call = restored_elsewhere(amp, reach)
        if call is not None:
            notes.append(f"if line {amp.facts.line(call)} restores the optimizer, give it the scaler as well")
        call = saved_alone(amp, reach)
        if call is not None:
            notes.append(f"line {amp.facts.line(call)} saves the optimizer's state: save and load the scaler's with it")
    enabled = Enabled(amp, reach, [*regions.all, *hoisted_regions(amp, regions)])
    enabled.prepare()
    yield from wrap_regions(amp, regions, enabled)
    yield from {cast.node: cast for cast in regions.floats}.values()
    yield from find_leaks(amp, regions)
    if reach is not None:
        yield from make_scaler(amp, reach, enabled)
        yield from reach.edits
    yield from enabled.inserts


def scaler_users(amp: Amp) -> list[ast.AST]:
    """The nodes that need the scaler."""
    sites = amp.facts.sites
    return [
        node
        for node in [*(site.call for site in sites.backwards), *(step.call for step in sites.steps)]
        if amp.facts.is_editable(node)
    ]


def scale_backwards(amp: Amp, regions: Regions, reach: Reach) -> Iterator[Edit]:
    """`scaler.scale(loss).backward()` for every loss."""
    for site in amp.facts.sites.backwards:
        scaler = reach.expression(amp.facts.tree.scope(site.call))
        for loss in site.losses:
            text = hoisted_name(amp, site) if site in regions.hoisted else amp.facts.text(loss)
            path = amp.facts.path(site.call)
            if isinstance(site.call.func, ast.Attribute) and site.call.func.value is loss:
                yield Replace(path, site.call.func, f"{scaler}.scale({text}).backward")
            else:
                yield Replace(path, loss, f"{scaler}.scale({text})")


def hoisted_name(amp: Amp, site: Backward) -> str:
    """The variable for a loss that stood in one expression with its backward."""
    return amp.facts.free_name("loss", [amp.facts.tree.scope(site.call)])


def hoisted_regions(amp: Amp, regions: Regions) -> list[Region]:
    """The statements of one-line losses, as places that need the condition."""
    return [Region((amp.facts.tree.statement(site.call),)) for site in regions.hoisted]


def wrap_regions(amp: Amp, regions: Regions, enabled: Enabled) -> Iterator[Edit | Finding]:
    """The `with` around each region, and the line of its own for each one-line loss."""
    for region in regions.all:
        header = autocast(amp, region, enabled)
        if isinstance(header, Obstacle):
            if region in regions.training:
                yield amp.blocked(header)
            continue
        yield Wrap(amp.facts.path(region.first), region.first, region.last, header)
    for site, loss in regions.hoisted.items():
        statement = amp.facts.tree.statement(site.call)
        header = autocast(amp, Region((statement,)), enabled)
        if isinstance(header, Obstacle):
            yield amp.blocked(header)
            continue
        name = hoisted_name(amp, site)
        text = f"{header}\n    {name} = {amp.facts.text(loss)}"
        yield Insert(amp.facts.path(statement), statement, "before", text)
        if not amp.half:
            assert isinstance(site.call.func, ast.Attribute)
            yield Replace(amp.facts.path(statement), site.call.func.value, name)


def autocast(amp: Amp, region: Region, enabled: Enabled) -> str | Obstacle:
    """The header of a region."""
    scope = amp.facts.tree.scope(region.first)
    condition = enabled.expression(scope, region.first, region)
    if isinstance(condition, Obstacle):
        return condition
    dtype = amp.torch(amp.options.amp_dtype, region.first)
    on = f", enabled={condition}" if condition else ""
    return f'with {amp.torch("autocast", region.first)}("{amp.device_type}", dtype={dtype}{on}):'


def make_scaler(amp: Amp, reach: Reach, enabled: Enabled) -> Iterator[Edit | Finding]:
    """The line that makes the scaler, behind the optimizer."""
    for home in reach.homes:
        yield from make_scaler_at(amp, reach, home, enabled)


def make_scaler_at(amp: Amp, reach: Reach, home: Home, enabled: Enabled) -> Iterator[Edit | Finding]:
    """The same at one home."""
    condition = enabled.variable_at(home.scope, home.anchor) or (
        None if enabled.always else enabled.test(home.scope, home.anchor, after=not home.before)
    )
    if condition is None and not enabled.always:
        condition = model_condition(amp, home) or ("False" if stays_on_cpu(amp, home) else None)
    if condition is None and not enabled.always:
        yield amp.declined(
            "device-unknown",
            home.anchor,
            "the device is not known where the optimizer is made: put the model, its device and its "
            "optimizer in one function",
        )
        return
    on = f", enabled={condition}" if condition else ""
    text = f'{home.target(reach.name)} = {amp.torch("amp.GradScaler", home.anchor)}("{amp.device_type}"{on})'
    if home.before:
        yield Insert(amp.facts.path(home.anchor), home.anchor, "before", text, slot=2)
    else:
        anchor = behind_compiles(amp.facts, home.anchor)
        yield Insert(amp.facts.path(anchor), anchor, "after", text, slot=2)


def stays_on_cpu(amp: Amp, home: Home) -> bool:
    """Whether what is trained with the optimizers of a home is never moved, as in the test of a training loop."""
    facts = amp.facts
    made = {value for node in ast.walk(home.anchor) if isinstance(node, ast.expr) for value in facts.values(node)}
    owners = {owner for value in made for owner in facts.sites.trained.get(value, ())}
    moved = {value for call, _ in find_moves(facts) for value in facts.values(receiver(call))}
    return bool(owners) and not owners & {inner for value in moved for inner in facts.sites.unwrap(value)}


def model_condition(amp: Amp, home: Home) -> str | None:
    """Ask a parameter of the trained model, when it has been moved by then and nothing else tells the device."""
    facts = amp.facts
    anchor: ast.AST = home.anchor
    for node in ast.walk(anchor):
        values = facts.values(node)
        path = dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        if (
            path
            and values
            and all(facts.state.is_module(value) for value in values)
            and moved_before(facts, values, anchor)
        ):
            return f"next({path}.parameters()).is_cuda"
    for name, values in facts.state.scopes.get(home.scope, {}).items():
        models = {model for value in values for model in facts.sites.unwrap(value)}
        known = models and models <= set(facts.sites.models) and bound_before(facts, name, home.scope, anchor)
        if known and moved_before(facts, values, anchor):
            return f"next({name}.parameters()).is_cuda"
    return None


def applied(amp: Amp, regions: Regions, notes: list[str]) -> Finding:
    """What was done, at the first backward."""
    facts = amp.facts
    site = facts.sites.backwards[0]
    scaling = ", loss scaling" if amp.half else ""
    places = plural(len(regions.training) + len(regions.hoisted), "training region")
    places += f" and {plural(len(regions.evaluation), 'evaluation region')}" if regions.evaluation else ""
    return Finding(
        "applied",
        "amp",
        str(facts.path(site.call)),
        facts.line(site.call),
        f"{amp.options.amp_dtype} autocast around {places}{scaling}{''.join(f'; {note}' for note in notes)}",
    )


def plural(count: int, thing: str) -> str:
    """`1 region`, `2 regions`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


CODEMOD = Codemod(
    name="amp",
    group="speed",
    stage="amp",
    summary="run forward and loss in half precision (torch.autocast, GradScaler)",
    since="2.4",
    parity="close",
    needs="a CUDA device; bfloat16 also runs on the CPU",
    docs="amp.md",
    plan=plan,
    options=("amp_dtype",),
    gain=Gain(
        low=2,
        high=3,
        text="2 to 3 times on GPUs with tensor cores",
        source="https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html",
    ),
)
