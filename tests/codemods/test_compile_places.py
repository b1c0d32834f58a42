"""Where `model.compile()` goes: behind the set-up of a model, before its wrappers, outside of loops."""

from __future__ import annotations

import pytest

from tests.codemods.check import check_rewrites, outcomes_of, run, text_of
from tests.codemods.compile_setup import HEAD, TRAINING, network, program


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "model = nn.Conv2d(3, 8, 3)",
            "model = nn.Conv2d(3, 8, 3)\nmodel.compile()",
            id="construction alone",
        ),
        pytest.param(
            "model = nn.Conv2d(3, 8, 3).to(device)  # the net\n\n# on to training\n",
            "model = nn.Conv2d(3, 8, 3).to(device)  # the net\nmodel.compile()\n\n# on to training\n",
            id="comments stay where they are",
        ),
        pytest.param(
            "model = nn.Conv2d(3, 8, 3)\nif use_cuda:\n    model = model.cuda()\n",
            "model = nn.Conv2d(3, 8, 3)\nif use_cuda:\n    model = model.cuda()\nmodel.compile()\n",
            id="behind a move under a condition",
        ),
        pytest.param(
            "model = nn.Conv2d(3, 8, 3)\nmodel.load_state_dict(torch.load(path))\n",
            "model = nn.Conv2d(3, 8, 3)\nmodel.load_state_dict(torch.load(path))\nmodel.compile()\n",
            id="behind the weights",
        ),
        pytest.param(
            "model = nn.Conv2d(3, 8, 3)\nmodel = model.to(memory_format=torch.channels_last)\n",
            "model = nn.Conv2d(3, 8, 3)\nmodel = model.to(memory_format=torch.channels_last)\nmodel.compile()\n",
            id="behind the memory format",
        ),
        pytest.param(
            "model = nn.Conv2d(3, 8, 3)\nfor p in model.parameters():\n    p.requires_grad = False\n",
            "model = nn.Conv2d(3, 8, 3)\nfor p in model.parameters():\n    p.requires_grad = False\nmodel.compile()\n",
            id="behind freezing",
        ),
        pytest.param(
            "model = nn.Conv2d(3, 8, 3)\nfor p in model.parameters():\n    print(p.shape)\n",
            "model = nn.Conv2d(3, 8, 3)\nmodel.compile()\nfor p in model.parameters():\n    print(p.shape)\n",
            id="looking at parameters is no set-up",
        ),
        pytest.param(
            """
            def initialize(net):
                nn.init.normal_(net.weight)
            model = nn.Conv2d(3, 8, 3)
            initialize(model)
            """,
            """
            def initialize(net):
                nn.init.normal_(net.weight)
            model = nn.Conv2d(3, 8, 3)
            initialize(model)
            model.compile()
            """,
            id="behind a function that initializes",
        ),
        pytest.param(
            "import timm\nmodel = timm.create_model(name)\nmodel.head = nn.Linear(512, 2)\n",
            "import timm\nmodel = timm.create_model(name)\nmodel.head = nn.Linear(512, 2)\nmodel.compile()\n",
            id="behind a new head",
        ),
        pytest.param(
            "import thop\nmodel = nn.Conv2d(3, 8, 3)\nthop.profile(model, (x,))\n",
            "import thop\nmodel = nn.Conv2d(3, 8, 3)\nthop.profile(model, (x,))\nmodel.compile()\n",
            id="behind a tool that hooks the model",
        ),
        pytest.param(
            "model = nn.Conv2d(3, 8, 3)\nwriter.add_graph(model, example)\n",
            "model = nn.Conv2d(3, 8, 3)\nwriter.add_graph(model, example)\nmodel.compile()\n",
            id="behind a tracer, which refuses compiled models",
        ),
        pytest.param(
            "model = nn.Conv2d(3, 8, 3); model.cuda()\n",
            "model = nn.Conv2d(3, 8, 3); model.cuda()\nmodel.compile()\n",
            id="two statements in one line",
        ),
        pytest.param(
            "with torch.device(device):\n    model = nn.Conv2d(3, 8, 3)\n",
            "with torch.device(device):\n    model = nn.Conv2d(3, 8, 3)\nmodel.compile()\n",
            id="built in a context",
        ),
        pytest.param(
            "if big:\n    model = nn.Conv2d(3, 80, 3)\nelse:\n    model = nn.Conv2d(3, 8, 3)\n",
            "if big:\n    model = nn.Conv2d(3, 80, 3)\nelse:\n    model = nn.Conv2d(3, 8, 3)\nmodel.compile()\n",
            id="once behind the branches that choose it",
        ),
    ],
)
def test_goes_behind_the_set_up(before: str, after: str) -> None:
    check_rewrites("compile", program(before), program(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "model = nn.Conv2d(3, 8, 3).cuda()\nmodel = nn.parallel.DistributedDataParallel(model)\n",
            "model = nn.Conv2d(3, 8, 3).cuda()\nmodel.compile()\nmodel = nn.parallel.DistributedDataParallel(model)\n",
            id="before DDP",
        ),
        pytest.param(
            "model = nn.parallel.DistributedDataParallel(nn.Conv2d(3, 8, 3).cuda())\n",
            "model = nn.parallel.DistributedDataParallel(nn.Conv2d(3, 8, 3).cuda())\nmodel.module.compile()\n",
            id="inside DDP when both are made in one expression",
        ),
        pytest.param(
            """
            from torch.nn.parallel import DistributedDataParallel as DDP
            net = nn.Conv2d(3, 8, 3).cuda()
            if distributed:
                model = DDP(net)
            else:
                model = net
            """,
            """
            from torch.nn.parallel import DistributedDataParallel as DDP
            net = nn.Conv2d(3, 8, 3).cuda()
            net.compile()
            if distributed:
                model = DDP(net)
            else:
                model = net
            """,
            id="before DDP under a condition",
        ),
        pytest.param(
            """
            from torch.nn.parallel import DistributedDataParallel as DDP
            model = nn.Conv2d(3, 8, 3)
            if distributed:
                model.cuda(gpu)
                model = DDP(model)
            else:
                model.cuda()
            """,
            """
            from torch.nn.parallel import DistributedDataParallel as DDP
            model = nn.Conv2d(3, 8, 3)
            if distributed:
                model.cuda(gpu)
                model.compile()
                model = DDP(model)
            else:
                model.cuda()
                model.compile()
            """,
            id="in each branch of an if that moves and wraps",
        ),
        pytest.param(
            """
            from torch.nn.parallel import DistributedDataParallel as DDP
            model = nn.Conv2d(3, 8, 3)
            if distributed:
                model.cuda(gpu)
                model = DDP(model)
            else:
                raise SystemExit("start this with torchrun")
            """,
            """
            from torch.nn.parallel import DistributedDataParallel as DDP
            model = nn.Conv2d(3, 8, 3)
            if distributed:
                model.cuda(gpu)
                model.compile()
                model = DDP(model)
            else:
                raise SystemExit("start this with torchrun")
            """,
            id="not in a branch that leaves",
        ),
        pytest.param(
            "model = nn.Conv2d(3, 8, 3)\nmodel = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n",
            "model = nn.Conv2d(3, 8, 3)\nmodel = nn.SyncBatchNorm.convert_sync_batchnorm(model)\nmodel.compile()\n",
            id="behind a conversion of its layers",
        ),
    ],
)
def test_goes_inside_wrappers(before: str, after: str) -> None:
    check_rewrites("compile", program(before), program(after))


def test_goes_behind_a_move_that_follows_the_optimizer() -> None:
    moved = TRAINING.replace("for x", "model.cuda()\nfor x")
    compiled = moved.replace("model.cuda()\n", "model.cuda()\nmodel.compile()\n")
    check_rewrites(
        "compile", program("model = nn.Conv2d(3, 8, 3)", moved), program("model = nn.Conv2d(3, 8, 3)", compiled)
    )


def test_stays_by_the_model_when_weights_are_loaded_behind_the_optimizer() -> None:
    loaded = TRAINING.replace("for x", "if resume:\n    model.load_state_dict(torch.load(resume))\nfor x")
    check_rewrites(
        "compile",
        program("model = nn.Conv2d(3, 8, 3)", loaded),
        program("model = nn.Conv2d(3, 8, 3)\nmodel.compile()", loaded),
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            """
            def build():
                net = nn.Conv2d(3, 8, 3)
                return net, 1
            model, classes = build()
            model.to(device)
            """,
            """
            def build():
                net = nn.Conv2d(3, 8, 3)
                return net, 1
            model, classes = build()
            model.to(device)
            model.compile()
            """,
            id="made by a function that returns a tuple",
        ),
        pytest.param(
            "model = nn.Conv2d(3, 8, 3)\nnet = model.to(device)\n",
            "model = nn.Conv2d(3, 8, 3)\nnet = model.to(device)\nmodel.compile()\n",
            id="two names: the one that is called",
        ),
        pytest.param(
            "args.net = nn.Conv2d(3, 8, 3)\nmodel = args.net\n",
            "args.net = nn.Conv2d(3, 8, 3)\nargs.net.compile()\nmodel = args.net\n",
            id="bound to an attribute",
        ),
        pytest.param(
            "models = {'a': nn.Conv2d(3, 8, 3)}\nmodel = models['a']\n",
            "models = {'a': nn.Conv2d(3, 8, 3)}\nmodel = models['a']\nmodel.compile()\n",
            id="got from a dict",
        ),
        pytest.param(
            "other, model = None, nn.Conv2d(3, 8, 3)\n",
            "other, model = None, nn.Conv2d(3, 8, 3)\nmodel.compile()\n",
            id="bound in a tuple",
        ),
    ],
)
def test_finds_the_name(before: str, after: str) -> None:
    check_rewrites("compile", program(before), program(after))


TRAINER = """
class Trainer:
    def __init__(self, net):
        self.net = net.cuda(){inside}
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def fit(self):
        for x, y in loader:
            loss = F.cross_entropy(self.net(x), y)
            loss.backward()
            self.optimizer.step()

"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            TRAINER.format(inside="") + "network = nn.Conv2d(3, 8, 3)\nTrainer(network).fit()\n",
            TRAINER.format(inside="") + "network = nn.Conv2d(3, 8, 3)\nnetwork.compile()\nTrainer(network).fit()\n",
            id="where it is made, when that has a name",
        ),
        pytest.param(
            TRAINER.format(inside="") + "Trainer(nn.Conv2d(3, 8, 3)).fit()\n",
            TRAINER.format(inside="\n        self.net.compile()") + "Trainer(nn.Conv2d(3, 8, 3)).fit()\n",
            id="in the class that gives it a name",
        ),
    ],
)
def test_trainer_classes(before: str, after: str) -> None:
    check_rewrites("compile", HEAD + before, HEAD + after)


FOLDS = """
for fold in range(5):
    model = nn.Conv2d(3, 8, 3).to(device){compiled}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""
FUNCTION = """
def train(net, optimizer):
    for x, y in loader:
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()

model = nn.Conv2d(3, 8, 3).to(device){compiled}
for epoch in range(5):
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
"""
TWO = """
enc = nn.Conv2d(3, 8, 3){first}
dec = nn.ConvTranspose2d(8, 3, 3){second}
optimizer = torch.optim.SGD(list(enc.parameters()) + list(dec.parameters()), lr=0.1)
for x, _ in loader:
    loss = F.mse_loss(dec(enc(x)), x)
    loss.backward()
    optimizer.step()
"""
GROUPS = """
import torchvision
model = torchvision.models.resnet18(){compiled}
optimizer = torch.optim.SGD([{{"params": model.layer4.parameters()}}, {{"params": model.fc.parameters()}}], lr=0.1)
for x, y in loader:
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("template", "calls"),
    [
        pytest.param(FOLDS, {"compiled": "\n    model.compile()"}, id="a model for each fold: in that loop"),
        pytest.param(FUNCTION, {"compiled": "\nmodel.compile()"}, id="a model for all epochs: outside of the loop"),
        pytest.param(TWO, {"first": "\nenc.compile()", "second": "\ndec.compile()"}, id="two models, one optimizer"),
        pytest.param(GROUPS, {"compiled": "\nmodel.compile()"}, id="an optimizer of parts trains the whole"),
    ],
)
def test_every_trained_model_once(template: str, calls: dict[str, str]) -> None:
    before = template.format(**dict.fromkeys(calls, ""))
    check_rewrites("compile", HEAD + before, HEAD + template.format(**calls))


def test_leaves_a_frozen_teacher_alone() -> None:
    setup = "import torchvision\nteacher = torchvision.models.resnet18()\nmodel = nn.Conv2d(3, 8, 3)\n"
    training = TRAINING.replace("model(x), y", "model(x), teacher(x)")
    check_rewrites("compile", program(setup, training), program(setup + "model.compile()\n", training))


@pytest.mark.parametrize("mode", ["default", "max-autotune"])
def test_writes_the_mode(mode: str) -> None:
    setup = "model = nn.Conv2d(3, 8, 3)\n"
    after = program(setup + f'model.compile(mode="{mode}")\n')
    check_rewrites("compile", program(setup), after, compile_mode=mode)


def test_aliases_of_torch() -> None:
    before = "import torch as th\nmodel = th.nn.Conv2d(3, 8, 3)\n" + TRAINING.replace("torch.optim", "th.optim")
    check_rewrites("compile", HEAD + before, HEAD + before.replace("3)\n", "3)\nmodel.compile()\n", 1))


@pytest.mark.parametrize(
    "forward",
    [
        pytest.param("if self.training:\n    x = -x", id="branches on a switch"),
        pytest.param("if x.shape[0] > 1:\n    x = -x", id="branches on a size"),
        pytest.param("if x is None:\n    return None", id="branches on an argument"),
        pytest.param("x = x[:, :3]", id="slices"),
        pytest.param("x[x > 0] = 0", id="writes by a mask, which keeps the size"),
        pytest.param("x = torch.where(x > 0, x, 0)", id="where with three arguments"),
        pytest.param("assert x.min() >= 0", id="asserts"),
        pytest.param("self.last = x", id="keeps a tensor"),
    ],
)
def test_forwards_that_can_be_followed(forward: str) -> None:
    before = program(network(forward))
    check_rewrites("compile", before, before.replace("model = Net()\n", "model = Net()\nmodel.compile()\n"))


def test_a_counter_in_a_buffer_is_no_obstacle() -> None:
    before = program(network("self.n += 1", 'self.register_buffer("n", torch.zeros(1))'))
    check_rewrites("compile", before, before.replace("model = Net()\n", "model = Net()\nmodel.compile()\n"))


def test_compiles_what_it_can_of_two_models() -> None:
    setup = "model = nn.Conv2d(3, 8, 3)\nrnn = nn.LSTM(8, 8)\n"
    training = TRAINING.replace("model.parameters()", "[*model.parameters(), *rnn.parameters()]")
    training = training.replace("model(x), y", "rnn(model(x))[0], y")
    result = run("compile", program(setup, training))
    assert text_of(result) == program(setup.replace("\nrnn", "\nmodel.compile()\nrnn"), training)
    assert [outcome.code for outcome in result.outcomes] == ["compile.rnn", "compile"], outcomes_of(result)
