"""Why models are left uncompiled: done already, nothing to do, would break, would not gain."""

from __future__ import annotations

import textwrap

import pytest

from tests.codemods.check import check_declines, check_rewrites, run
from tests.codemods.compile_setup import HEAD, TRAINING, network, program

CONV = "model = nn.Conv2d(3, 8, 3)\n"
HOOK = "register_forward_hook(lambda *_: None)"


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param("model = torch.compile(nn.Conv2d(3, 8, 3))", id="torch.compile"),
        pytest.param("import torch as th\nmodel = nn.Conv2d(3, 8, 3)\nmodel = th.compile(model)", id="by an alias"),
        pytest.param("from torch import compile\nmodel = compile(nn.Conv2d(3, 8, 3))", id="imported"),
        pytest.param("model = nn.Conv2d(3, 8, 3)\nmodel.compile()", id="in place"),
        pytest.param("model = nn.Conv2d(3, 8, 3)\nif fast:\n    model = torch.compile(model)", id="under a condition"),
        pytest.param("model = torch.jit.script(nn.Conv2d(3, 8, 3))", id="scripted"),
        pytest.param(CONV + "@torch.compile\ndef step(x):\n    return x\n", id="a decorated function"),
    ],
)
def test_already_compiled(setup: str) -> None:
    check_declines("compile", program(setup), "compile.already")


def test_tells_the_mode_that_is_there() -> None:
    result = run("compile", program(CONV + 'model.compile(mode="reduce-overhead")\n'), compile_mode="max-autotune")
    assert '(mode="reduce-overhead")' in result.outcomes[0].reason


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param("import re\nP = re.compile('x')\nmodel = nn.Conv2d(3, 8, 3)\n", id="of a regular expression"),
        pytest.param("from mylib import compile\nmodel = nn.Conv2d(3, 8, 3)\ncompile(model)\n", id="of mylib"),
    ],
)
def test_other_compiles_do_not_count(setup: str) -> None:
    first, line, rest = program(setup).partition("model = nn.Conv2d(3, 8, 3)\n")
    check_rewrites("compile", first + line + rest, f"{first}{line}model.compile()\n{rest}")


@pytest.mark.parametrize(
    ("source", "code"),
    [
        pytest.param(HEAD + "model = nn.Conv2d(3, 8, 3)\nprint(model(x))\n", "compile.no-training", id="inference"),
        pytest.param(
            HEAD + "from transformers import Trainer\nTrainer(model=nn.Linear(2, 2), args=args).train()\n",
            "compile.engine",
            id="another engine",
        ),
        pytest.param(
            HEAD
            + "import torch.distributed.autograd as dist\nwith dist.context() as id:\n    dist.backward(id, [x])\n",
            "compile.autograd-grad",
            id="distributed gradients",
        ),
        pytest.param(
            """
            import torch
            import torchvision
            vgg = torchvision.models.vgg16()
            image = torch.rand(1, 3, 64, 64, requires_grad=True)
            optimizer = torch.optim.Adam([image])
            for step in range(100):
                vgg(image).sum().backward()
                optimizer.step()
            """,
            "compile.no-model",
            id="an image is trained",
        ),
    ],
)
def test_nothing_to_compile(source: str, code: str) -> None:
    check_declines("compile", source, code)


LOSS = "loss = F.cross_entropy(model(x), y)\n"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        pytest.param(
            LOSS,
            LOSS + "    penalty = torch.autograd.grad(loss, x, create_graph=True)\n",
            "compile.double-backward",
            id="a gradient penalty",
        ),
        pytest.param("backward()", "backward(create_graph=True)", "compile.double-backward", id="a Hessian"),
        pytest.param(
            LOSS,
            LOSS + "    torch.autograd.functional.hessian(model, x)\n",
            "compile.double-backward",
            id="a functional Hessian",
        ),
        pytest.param("backward()", "backward(retain_graph=True)", "compile.retain-graph", id="a retained graph"),
        pytest.param("backward()", "backward(retain_graph=again)", "compile.retain-graph", id="perhaps retained"),
        pytest.param("    optimizer.step()", "    optimizer.step()\n    model.cpu()", "compile.moved-in-loop", id="to"),
        pytest.param(LOSS, LOSS + '    model.to("cpu")\n', "compile.moved-in-loop", id="moved by name"),
        pytest.param(
            LOSS,
            LOSS + "    model.cpu()\n    model.to('cuda' if torch.cuda.is_available() else 'cpu')\n",
            "compile.moved-in-loop",
            id="there and back",
        ),
        pytest.param(
            LOSS, "model.alpha = len(x)\n    " + LOSS, "compile.changing-attribute", id="an attribute of a torch layer"
        ),
        pytest.param("model(x)", "model.forward(x)", "compile.other-methods", id="forward called by name"),
    ],
)
def test_training_loops(old: str, new: str, code: str) -> None:
    check_declines("compile", program(CONV, TRAINING.replace(old, new)), code)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("backward()", "backward(retain_graph=False)", id="nothing retained"),
        pytest.param(LOSS, LOSS + "    g = torch.autograd.grad(loss, x)\n", id="gradients of inputs"),
        pytest.param(LOSS, "model.epoch = 0\n    " + LOSS, id="an attribute set to a constant"),
        pytest.param(LOSS, LOSS + "    saved = {k: v.cpu() for k, v in model.state_dict().items()}\n", id="copies"),
        pytest.param(
            LOSS, LOSS + "    model.to('cuda' if torch.cuda.is_available() else 'cpu')\n", id="moved where it is"
        ),
    ],
)
def test_training_loops_that_are_fine(old: str, new: str) -> None:
    training = TRAINING.replace(old, new)
    check_rewrites("compile", program(CONV, training), program(CONV + "model.compile()\n", training))


@pytest.mark.parametrize(
    ("setup", "code"),
    [
        pytest.param(f"{CONV}model.{HOOK}", "compile.hooks", id="a hook"),
        pytest.param(f"model = nn.Sequential(nn.Conv2d(3, 8, 3))\nmodel[0].{HOOK}", "compile.hooks", id="on a part"),
        pytest.param(f"{CONV}thing.{HOOK}", "compile.hooks", id="a hook on something unknown"),
        pytest.param(
            f"{CONV}torch.nn.utils.prune.l1_unstructured(model, 'weight', 0.3)", "compile.hooks", id="pruning"
        ),
        pytest.param(
            "model = nn.utils.spectral_norm(nn.Conv2d(3, 8, 3))", "compile.spectral-norm", id="old spectral norm"
        ),
        pytest.param(
            f"torch.set_default_tensor_type('torch.cuda.FloatTensor')\n{CONV}", "compile.default-tensor-type", id="CUDA"
        ),
        pytest.param(
            f"import torch.multiprocessing as mp\n{CONV}mp.spawn(work, args=(model,))",
            "compile.processes",
            id="handed to processes",
        ),
        pytest.param(
            f"{CONV}model = torch.cuda.make_graphed_callables(model, (x,))", "compile.cuda-graphs", id="CUDA graphs"
        ),
        pytest.param(f"{CONV}model.share_memory()", "compile.processes", id="shared"),
        pytest.param("model = nn.DataParallel(nn.Conv2d(3, 8, 3))", "compile.data-parallel", id="DataParallel"),
        pytest.param("model = nn.LSTM(3, 8)", "compile.rnn", id="a recurrent layer"),
        pytest.param("model = getattr(nn, kind)(3, 8)", "compile.rnn", id="perhaps a recurrent layer"),
        pytest.param("model = torch.load(path)", "compile.unknown-code", id="a model from a file"),
        pytest.param("from mylib import Net\nmodel = Net()", "compile.unknown-code", id="of a package"),
        pytest.param("from mylib import nn\nmodel = nn.Conv2d(3, 8, 3)", "compile.unknown-code", id="a look-alike"),
        pytest.param(
            "model = None\nif big:\n    model = nn.Conv2d(3, 8, 3)", "compile.model-uncertain", id="perhaps None"
        ),
        pytest.param(
            "if old:\n    model = torch.load(path)\nelse:\n    model = nn.Conv2d(3, 8, 3)",
            "compile.model-uncertain",
            id="perhaps one that cannot be compiled",
        ),
        pytest.param(
            "import torchvision\nmodel = torchvision.models.detection.fasterrcnn_resnet50_fpn()",
            "compile.data-dependent",
            id="a detector",
        ),
        pytest.param(
            "from torch.distributed.fsdp import FullyShardedDataParallel\n"
            "model = FullyShardedDataParallel(nn.Conv2d(3, 8, 3))",
            "compile.sharded",
            id="sharded",
        ),
    ],
)
def test_set_ups(setup: str, code: str) -> None:
    check_declines("compile", program(setup), code)


def test_a_model_without_a_name() -> None:
    training = TRAINING.replace("model.", "models['a'].").replace("model(x)", "models['a'](x)")
    check_declines("compile", program("models = {'a': nn.Conv2d(3, 8, 3)}", training), "compile.model-unbound")


def test_a_hook_on_another_model_is_no_obstacle() -> None:
    setup = f"import torchvision\nvgg = torchvision.models.vgg16()\nvgg.{HOOK}\n{CONV}"
    check_rewrites("compile", program(setup), program(setup + "model.compile()\n"))


def test_a_model_that_nobody_makes() -> None:
    function = "def train(model, optimizer):\n    for x, y in loader:\n        F.mse_loss(model(x), y).backward()\n"
    check_declines("compile", HEAD + function + "        optimizer.step()\n", "compile.model-elsewhere")


@pytest.mark.parametrize(
    ("more", "code"),
    [
        pytest.param("torch.onnx.export(model, x, 'm.onnx')", "compile.export", id="export behind the training"),
        pytest.param("torch.jit.trace(model, x)", "compile.export", id="a trace"),
        pytest.param("features = nn.Sequential(*list(model.children())[:-1])", "compile.submodules", id="children"),
    ],
)
def test_after_training(more: str, code: str) -> None:
    check_declines("compile", program(CONV, more=more), code)


def test_an_exported_copy_is_no_obstacle() -> None:
    more = "import copy\ntorch.onnx.export(copy.deepcopy(model), x, 'm.onnx')\n"
    check_rewrites("compile", program(CONV, more=more), program(CONV + "model.compile()\n", more=more))


@pytest.mark.parametrize(
    ("forward", "code"),
    [
        pytest.param("x = x * x.max().item()", "compile.data-dependent", id="item"),
        pytest.param("print(x.shape)", "compile.data-dependent", id="print"),
        pytest.param("if x.sum() > 0:\n    x = -x", "compile.data-dependent", id="a branch"),
        pytest.param("x = -x if torch.any(x > 0) else x", "compile.data-dependent", id="a branch in an expression"),
        pytest.param("import random\nif random.random() < 0.5:\n    x = -x", "compile.data-dependent", id="chance"),
        pytest.param("x = x[x > 0]", "compile.data-dependent", id="a mask"),
        pytest.param("keep = x.gt(0)\nx = x[:, keep]", "compile.data-dependent", id="a mask with a name"),
        pytest.param("n = x.nonzero()", "compile.data-dependent", id="nonzero"),
        pytest.param("i = torch.where(x > 0)", "compile.data-dependent", id="where with a condition alone"),
        pytest.param("x = torch.fft.fft2(x).abs()", "compile.complex", id="Fourier"),
        pytest.param("x = torch.sparse.mm(a, x)", "compile.sparse", id="sparse tensors"),
        pytest.param("x = nn.parallel.data_parallel(self.conv, x)", "compile.data-parallel", id="data_parallel"),
    ],
)
def test_forwards(forward: str, code: str) -> None:
    check_declines("compile", program(network(forward)), code)


@pytest.mark.parametrize(
    ("forward", "init"),
    [
        pytest.param("self.calls += 1", "self.calls = 0", id="a counter"),
        pytest.param("self.calls = self.calls + 1", "self.calls = 0", id="a counter, written out"),
        pytest.param("self.outputs.append(x)", "self.outputs = []", id="a list"),
    ],
)
def test_attributes_that_change(forward: str, init: str) -> None:
    check_declines("compile", program(network(forward, init)), "compile.changing-attribute")


SEEN = "model.seen += x.size(0)\n    " + LOSS


@pytest.mark.parametrize(
    ("forward", "more"),
    [
        pytest.param("x = x * self.seen", "", id="by forward"),
        pytest.param("x = self.scaled(x)", "def scaled(self, x):\n    return x * self.seen", id="by what it calls"),
        pytest.param("x = x * self.size", "@property\ndef size(self):\n    return self.seen", id="by a property"),
        pytest.param("x = x * getattr(self, name)", "", id="by a name that is not known"),
    ],
)
def test_attributes_that_the_loop_sets_and_forward_reads(forward: str, more: str) -> None:
    methods = textwrap.indent(more, " " * 4) + "\n\n    def forward"
    setup = network(forward, "self.seen = 0").replace("    def forward", methods.lstrip("\n"))
    check_declines("compile", program(setup, TRAINING.replace(LOSS, SEEN)), "compile.changing-attribute")


@pytest.mark.parametrize(
    ("forward", "line"),
    [
        pytest.param("pass", "model.seen += x.size(0)", id="that forward does not read"),
        pytest.param("x = x * self.seen", "model.seen = y.float().mean()", id="that are tensors"),
        pytest.param("x = x * self.seen", "model.seen = torch.tensor(len(x))", id="made to tensors"),
        pytest.param("x = x * self.seen", "model.seen = len(x) / 100", id="that are fractions"),
    ],
)
def test_attributes_that_the_loop_may_set(forward: str, line: str) -> None:
    setup = network(forward, "self.seen = 0").replace(
        "    def forward", "    def save(self):\n        return self.seen\n\n    def forward"
    )
    training = TRAINING.replace(LOSS, f"{line}\n    {LOSS}")
    check_rewrites("compile", program(setup, training), program(setup + "model.compile()\n", training))


def test_work_in_another_method() -> None:
    source = network("pass").replace(
        "    def forward", "    def encode(self, x):\n        return self.conv(x)\n\n    def forward"
    )
    training = TRAINING.replace("model(x)", "model.encode(x)")
    check_declines("compile", program(source, training), "compile.other-methods")


def test_work_in_a_part() -> None:
    training = TRAINING.replace("model(x)", "model.conv(x)")
    check_declines("compile", program(network("pass"), training), "compile.submodules")


MAML = """
meta = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    weights = dict(model.named_parameters())
    loss = F.mse_loss(torch.func.functional_call(model, weights, (x,)), y)
    grads = torch.autograd.grad(loss, weights.values(), create_graph=True)
    weights = {k: w - g for (k, w), g in zip(weights.items(), grads)}
    F.mse_loss(torch.func.functional_call(model, weights, (x,)), y).backward()
    meta.step()
"""


@pytest.mark.parametrize(
    ("training", "code", "word"),
    [
        pytest.param(MAML, "compile.double-backward", "functional_call", id="gradients of gradients"),
        pytest.param(
            MAML.replace(", create_graph=True", ""), "compile.functional-call", "functional_call", id="first order"
        ),
        pytest.param(
            MAML.replace("torch.func.", "torch.nn.utils.stateless.").replace(", create_graph=True", ""),
            "compile.functional-call",
            "functional_call",
            id="by its old name",
        ),
        pytest.param(
            TRAINING.replace("backward()", "backward(create_graph=True)\n    loss.backward(create_graph=True)"),
            "compile.double-backward",
            "differentiated again",
            id="twice",
        ),
        pytest.param(
            TRAINING.replace("backward()", "backward(retain_graph=True)\n    loss.backward(retain_graph=True)"),
            "compile.retain-graph",
            "donated_buffer",
            id="retained twice",
        ),
        pytest.param(
            TRAINING.replace("backward()", "backward()\n    torch.func.jacrev(model)(x)"),
            "compile.double-backward",
            "torch.func.jacrev",
            id="a Jacobian",
        ),
    ],
)
def test_says_one_thing_once(training: str, code: str, word: str) -> None:
    source = program(CONV, training)
    check_declines("compile", source, code)
    (outcome,) = run("compile", source).outcomes
    assert word in outcome.reason


def test_a_method_that_calls_the_model_is_no_obstacle() -> None:
    source = network("pass").replace(
        "    def forward", "    def loss(self, x, y):\n        return F.cross_entropy(self(x), y)\n\n    def forward"
    )
    training = TRAINING.replace("F.cross_entropy(model(x), y)", "model.loss(x, y)")
    check_rewrites("compile", program(source, training), program(source + "model.compile()\n", training))


def test_a_compile_method_of_its_own() -> None:
    source = network("pass").replace("    def forward", "    def compile(self, loss):\n        pass\n\n    def forward")
    check_declines("compile", program(source), "compile.own-call")


FULL = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    {get}loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("model", "get", "code"),
    [
        pytest.param("nn.Linear(4, 1)", "", "compile.tiny-full-batch", id="all data at once"),
        pytest.param(
            "nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 1))", "", "compile.tiny-full-batch", id="with an embedding"
        ),
        pytest.param("nn.Linear(4, 1)", "x, y = memory.sample(32)\n    ", "compile.tiny-model", id="samples"),
    ],
)
def test_tiny_models(model: str, get: str, code: str) -> None:
    check_declines("compile", HEAD + f"model = {model}\n" + FULL.format(get=get), code)


SAMPLES = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
    def forward(self, x):
        return self.fc(x)
    def train_net(self, batch):
        {unpack}
        loss = F.mse_loss(self(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

def main():
    first, second = Net(), Net()
    data = load()
    first(data)
    for step in range(100):
        {get}
        first.train_net(batch)
        second.train_net(batch)
"""


@pytest.mark.parametrize(
    ("get", "unpack", "code"),
    [
        pytest.param("batch = memory.sample(32)", "x, y = batch", "compile.tiny-model", id="from a buffer"),
        pytest.param("batch = draw()", "x, y = batch", "compile.tiny-model", id="from a function"),
        pytest.param("batch = data[step]", "x, y = batch[0], batch[1]", "compile.tiny-model", id="an item"),
        pytest.param("batch = data", "x, y = draw(batch)", "compile.tiny-model", id="drawn in the method"),
        pytest.param("batch = data", "x, y = batch", "compile.tiny-full-batch", id="the whole in each step"),
    ],
)
def test_tiny_models_that_train_in_a_method(get: str, unpack: str, code: str) -> None:
    source = HEAD + SAMPLES.format(get=get, unpack=unpack)
    check_declines("compile", source, code)
    assert len(run("compile", source).outcomes) == 1, "the same is said of both models"


@pytest.mark.parametrize(
    ("setup", "training"),
    [
        pytest.param("model = nn.Conv1d(4, 1, 3)\n", FULL.format(get=""), id="a convolution"),
        pytest.param(
            "from torch.utils.data import DataLoader\nloader = DataLoader(data)\nmodel = nn.Linear(4, 1)\n",
            TRAINING,
            id="a loader",
        ),
        pytest.param("model = nn.Linear(4, 1)\n", TRAINING, id="something that may be a loader"),
    ],
)
def test_models_that_are_not_tiny(setup: str, training: str) -> None:
    check_rewrites("compile", program(setup, training), program(setup + "model.compile()\n", training))


@pytest.mark.parametrize(
    ("setup", "target", "code"),
    [
        pytest.param("model = nn.Sequential(nn.Conv2d(3, 8, 3))\n", (2, 13), "compile.plain-container", id="plain"),
        pytest.param(
            "class Net(nn.Sequential):\n    pass\nmodel = Net(nn.Conv2d(3, 8, 3))\n",
            (2, 4),
            "compile.plain-container",
            id="a container by another name",
        ),
        pytest.param(
            network("pass", "self.words = nn.Embedding(9, 3, sparse=True)"), (2, 7), "compile.sparse", id="sparse"
        ),
    ],
)
def test_older_torch(setup: str, target: tuple[int, int], code: str) -> None:
    check_declines("compile", program(setup), code, target_torch=target)


def test_a_class_with_a_forward_is_compiled_by_any_torch() -> None:
    before = program(network("pass"))
    after = before.replace("model = Net()\n", "model = Net()\nmodel.compile()\n")
    check_rewrites("compile", before, after, target_torch=(2, 4))


MANY = """
opts = [torch.optim.SGD(net.parameters(), lr=.1) for net in nets]
for x, y in loader:
    for net, opt in zip(nets, opts):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
"""


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param("nets = [nn.Conv2d(3, 8, 3) for _ in range(3)]", id="comprehension"),
        pytest.param("nets = []\nfor _ in range(3):\n    nets.append(nn.Conv2d(3, 8, 3))", id="appended in a loop"),
    ],
)
def test_many_models_from_one_line(setup: str) -> None:
    check_declines("compile", program(setup, MANY), "compile.model-many")


def test_each_of_many_models_that_has_a_name() -> None:
    setup = "nets = []\nfor _ in range(3):\n    net = nn.Conv2d(3, 8, 3)\n    nets.append(net)\n"
    after = setup.replace("8, 3)\n", "8, 3)\n    net.compile()\n")
    check_rewrites("compile", program(setup, MANY), program(after, MANY))
