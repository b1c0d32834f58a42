"""What `scan` finds, what it says could be gained, and that it says nothing else."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from speedpatch import __version__, registry
from speedpatch.config import UsageError
from speedpatch.scan import scan
from tests.checkouts import ROOT
from tests.test_notebooks import cell, document
from tests.test_terminal import ANSI, converse

MODEL = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.inner = nn.Conv2d(3, 4, 3)\n    def forward(self, x):\n        return self.inner(x)\n"  # noqa: E501
STEP = "loss = criterion(net(x.to(device)), y.to(device))\n{0}optimizer.zero_grad()\n{0}loss.backward()\n{0}optimizer.step()\n"  # noqa: E501
HEAD = "import torch\nfrom torch import nn\n"
SET_UP = "net = Net().to(device)\ncriterion = nn.CrossEntropyLoss()\noptimizer = torch.optim.Adam(net.parameters())\n"
LOADER = "loader = torch.utils.data.DataLoader(data)\n"
LOOP = "for epoch in range(9):\n    for x, y in loader:\n        " + STEP.format(" " * 8)
TRAIN = HEAD + "from data import data\n" + MODEL + 'device = "cuda"\n' + SET_UP + LOADER + LOOP
ON_CPU = TRAIN.replace('"cuda"', '"cpu"')
ENGINE = "from transformers import Trainer\nimport torch\nTrainer(model).train()\n"
WIDE = "\u5b57" * 40
LBFGS = TRAIN.replace("Adam", "LBFGS").replace("optimizer.step()", "optimizer.step(lambda: loss)")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository that we are in."""
    path = tmp_path / "work"
    (path / ".git").mkdir(parents=True)
    monkeypatch.chdir(path)
    return path


def lay(files: Mapping[str, str]) -> None:
    """Write files."""
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def told(capsys: pytest.CaptureFixture[str], *paths: str, names: tuple[str, ...] = ("amp", "compile")) -> list[str]:
    """The lines for people."""
    capsys.readouterr()
    scan([*map(Path, paths)], names, {}, json=False, follow=True)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    return lines


def program(capsys: pytest.CaptureFixture[str], path: str = "train.py", options: Any = None) -> dict[str, Any]:
    """The object of one program."""
    capsys.readouterr()
    scan([Path(path)], (), options or {}, json=True, follow=True)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["programs"][0]
    return found


def places(found: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names and lines by kind."""
    kinds: dict[str, list[str]] = {}
    for item in found["found"]:
        kinds.setdefault(item["kind"], []).append(f"{item['name']} {item['path']}:{item['line']}".strip())
    return kinds


class TestEvidence:
    """What a program is made of, and where."""

    def test_everything_has_a_place(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"train.py": TRAIN})
        found = program(capsys)
        assert (found["trains"], found["device"]) == (True, "cuda")
        assert places(found) == {
            "model": ["Net train.py:11"],
            "optimizer": ["Adam train.py:13"],
            "loss": ["CrossEntropyLoss train.py:12"],
            "loader": ["DataLoader train.py:14"],
            "device": ["train.py:11"],
            "epoch_loop": ["for train.py:15"],
            "step_loop": ["for train.py:16"],
            "backward": ["loss train.py:19"],
            "optimizer_step": ["optimizer train.py:20"],
        }

    @pytest.mark.parametrize(
        ("line", "kind", "expected"),
        [
            pytest.param("net = nn.DataParallel(net)", "wrapper", "DataParallel", id="wrapper"),
            pytest.param("s = torch.optim.lr_scheduler.StepLR(optimizer, 1)", "scheduler", "StepLR", id="scheduler"),
            pytest.param(
                "torch.nn.utils.clip_grad_norm_(net.parameters(), 1)", "clipping", "clip_grad_norm_", id="clip"
            ),
            pytest.param("print(net.inner.weight.grad.norm())", "gradient_read", "", id="gradient read"),
            pytest.param("scaler = torch.cuda.amp.GradScaler()", "scaler", "GradScaler", id="scaler"),
            pytest.param("with torch.autocast('cuda'): pass", "autocast", "autocast", id="autocast"),
            pytest.param("torch.save(net, 'x.pt')", "checkpoint", "save", id="save"),
            pytest.param("net.load_state_dict(torch.load('x.pt'))", "checkpoint", "load", id="load"),
            pytest.param("nn.functional.mse_loss(x, y)", "loss", "mse_loss", id="loss function"),
        ],
    )
    def test_kinds(self, line: str, kind: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"train.py": f"{TRAIN}{line}\n"})
        assert f"{expected} train.py:21".strip() in places(program(capsys))[kind]

    @pytest.mark.parametrize(
        ("line", "kind"),
        [
            pytest.param("mine.save(net)", "checkpoint", id="another save"),
            pytest.param("def GradScaler(): pass\nGradScaler()", "scaler", id="a look-alike scaler"),
            pytest.param("for x in range(3): print(x)", "epoch_loop", id="a loop that does not train"),
        ],
    )
    def test_no_evidence(self, line: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"train.py": f"import mine\n{TRAIN}{line}\n"})
        assert not [place for place in places(program(capsys)).get(kind, []) if place.endswith((":22", ":23"))]

    def test_loops_around_the_call_of_a_function(self, capsys: pytest.CaptureFixture[str]) -> None:
        step = "def step(x, y):\n    " + STEP.format("    ")
        lay(
            {
                "train.py": TRAIN.split("for epoch")[0]
                + step
                + "while True:\n    for x, y in loader:\n        step(x, y)\n"
            }
        )
        found = places(program(capsys))
        assert (found["epoch_loop"], found["step_loop"]) == (["while train.py:20"], ["for train.py:21"])

    def test_micro_batches_belong_to_the_step(self, capsys: pytest.CaptureFixture[str]) -> None:
        loop = LOOP.replace("        loss.backward()", "        for part in loss:\n            part.backward()")
        lay({"train.py": TRAIN.replace(LOOP, loop)})
        assert places(program(capsys))["step_loop"] == ["for train.py:16"]

    def test_files_of_a_program(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"train.py": TRAIN.replace(MODEL, "from parts.net import Net, build\n").replace("Net()", "build()")})
        lay({"parts/net.py": HEAD + MODEL + "def build():\n    return Net()\n"})
        assert places(program(capsys))["model"] == ["Net parts/net.py:10"]

    def test_code_that_nothing_runs(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"train.py": TRAIN, "data.py": HEAD + "data = []\ndef unused(net):\n    return nn.DataParallel(net)\n"})
        assert "wrapper" not in places(program(capsys))

    def test_cells_of_a_notebook(self, capsys: pytest.CaptureFixture[str]) -> None:
        cells = [cell("# Title", "markdown"), *map(cell, [*TRAIN.split('device = "cuda"\n'), "%%bash\nls"])]
        cells.insert(2, cell('device = "cuda"\n%run other.py --token secret'))
        lay({"nb.ipynb": json.dumps(document(cells))})
        found = program(capsys, "nb.ipynb")
        backward = next(item for item in found["found"] if item["kind"] == "backward")
        assert backward == {"kind": "backward", "name": "loss", "path": "nb.ipynb", "cell": 4, "line": 9}
        assert found["not_read"] == ["cell 5 (cell magic %%bash)", "`%run other.py` in cell 3"]
        assert "    backward        loss nb.ipynb:cell 4:9" in told(capsys, "nb.ipynb")

    def test_an_engine(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"train.py": ENGINE})
        assert places(program(capsys))["engine"] == ["transformers.Trainer train.py:3"]

    def test_nothing_to_find(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"train.py": HEAD + MODEL})
        found = program(capsys)
        assert (found["trains"], found["device"], found["found"]) == (False, None, [])

    def test_prints_names_and_no_code(self, capsys: pytest.CaptureFixture[str]) -> None:
        secrets = TRAIN.replace('"cuda"', 'open("SECRET").read()').replace("net(x", 'nets["SECRET"].encode(x')
        secrets += 'torch.save(net, "SECRET")\ntorch.compile(net, mode="SECRET".lower())  # SECRET\n'
        lay({"train.py": secrets})
        assert "SECRET" not in "\n".join(told(capsys, "train.py"))
        assert "SECRET" not in json.dumps(program(capsys))

    def test_names_a_method_without_what_it_is_called_on(self, capsys: pytest.CaptureFixture[str]) -> None:
        method = MODEL + "    def encode(self, x):\n        return self.inner(x)\n"
        text = TRAIN.replace(MODEL, method).replace("net(x", '{"SECRET": net}["SECRET"].encode(x')
        lay({"train.py": text})
        found = json.dumps(program(capsys))
        assert "compile.other-methods" in found and "SECRET" not in found


class TestGains:
    """What each optimization would do, and what that is worth."""

    def test_edits_are_counted_by_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"train.py": TRAIN.split("for epoch")[0].replace("import data", "import data\nfrom engine import train")})
        loop = "def train(net, criterion, optimizer, loader, device):\n" + re.sub("^", "    ", LOOP, flags=re.M)
        lay({"engine.py": loop.rstrip() + "\n"})
        with Path("train.py").open("a") as file:
            file.write("train(net, criterion, optimizer, loader, device)\n")
        amp = program(capsys)["optimizations"][0]
        assert amp["codemod"] == "amp" and {item["path"] for item in amp["edits"]} == {"train.py", "engine.py"}
        assert all(item["count"] > 0 for item in amp["edits"])

    def test_gains_come_with_their_source(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"train.py": TRAIN})
        for found in program(capsys)["optimizations"]:
            gain = registry.codemods()[found["codemod"]].gain
            assert gain is not None
            expected = {"from": gain.low, "to": gain.high, "text": gain.text, "source": gain.source}
            assert (found["status"], found["gain"]) == ("applied", expected)

    def test_of_a_gpu_nothing_is_said_on_a_cpu(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"train.py": ON_CPU})
        assert [item["gain"] for item in program(capsys)["optimizations"]] == [None, None]
        assert not [line for line in told(capsys, "train.py") if "GPUs" in line]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param(TRAIN, [("amp", "applied"), ("compile", "applied")], id="the highest gain first"),
            pytest.param(ON_CPU, [("compile", "applied"), ("amp", "declined")], id="what applies before the rest"),
            pytest.param(ENGINE, [("amp", "not_applicable"), ("compile", "not_applicable")], id="neither"),
        ],
    )
    def test_order(self, text: str, expected: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
        lay({"train.py": text})
        found = [(item["codemod"], item["status"]) for item in program(capsys)["optimizations"]]
        assert found == expected


class TestText:
    """For people."""

    def test_one_script(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"train.py": ON_CPU})
        assert told(capsys, "train.py") == [
            f"speedpatch {__version__}, Python {platform.python_version()}, edits for torch 2.15",
            "train.py",
            "  found",
            "    model           Net train.py:11",
            "    optimizer       Adam train.py:13",
            "    loss            CrossEntropyLoss train.py:12",
            "    loader          DataLoader train.py:14",
            "    epoch loop      for train.py:15",
            "    step loop       for train.py:16",
            "    backward        loss train.py:19",
            "    optimizer step  optimizer train.py:20",
            "    device          the CPU only: train.py:11",
            "  could be gained",
            "    compile  would be applied: 1 edit in train.py",
            "             train.py:11: net is compiled in place behind this line (close)",
            "    amp      declined",
            "             train.py:19: the program never leaves the CPU, where float16 gains nothing: move the",
            "               model and its batches to a GPU, or use --amp-dtype bfloat16 [amp.cpu-only]",
            "1 file could gain",
        ]

    def test_a_folder(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"a_cpu.py": ON_CPU, "b_cuda.py": TRAIN, "c_engine.py": ENGINE, "d_lbfgs.py": LBFGS})
        lay({"tool.py": "import torch\n", "other.py": "import torch\n", "no_torch.py": "x = 1\n"})
        assert told(capsys, ".")[1:] == [
            "program      trains      device  would apply   not applied",
            "b_cuda.py    Net         CUDA    amp, compile",
            "d_lbfgs.py   Net         CUDA    compile       amp.lbfgs",
            "a_cpu.py     Net         CPU     compile       amp.cpu-only",
            "c_engine.py  by Trainer                        amp.engine",
            "                                               compile.engine",
            "",
            "amp: 2 to 3 times on GPUs with tensor cores:",
            "  https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html",
            "compile: 30 % to 2 times on GPUs with tensor cores: https://github.com/pytorch/pytorch/issues/93794",
            "`speedpatch scan PROGRAM` says all of one, `speedpatch explain CODE` what a code means.",
            "2 programs without training: other.py, tool.py",
            "3 files could gain, 1 file without torch",
        ]

    def test_a_folder_with_one_program_is_told_as_that(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"src/train.py": TRAIN, "src/tool.py": "import torch\n"})
        lines = told(capsys, "src")
        assert lines[1:3] == ["src/train.py", "  found"]
        assert lines[-2:] == ["1 program without training: src/tool.py", "1 file could gain"]

    def test_a_script_that_does_not_train(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"tool.py": "import torch\n"})
        lines = told(capsys, "tool.py", names=("amp",))
        assert lines[1:4] == ["tool.py", "  could be gained", "    amp  not applicable"]

    def test_long_paths_break_at_folders(self, capsys: pytest.CaptureFixture[str]) -> None:
        deep = "experiments/image_classification/baselines"
        lay({f"{deep}/train.py": TRAIN, f"{deep}/train_on_cpu.py": ON_CPU})
        lines = told(capsys, ".")
        assert [line.split("  ")[0] for line in lines[2:6]] == [
            "experiments/",
            "image_classification/",
            "baselines/train.py",
            "experiments/",
        ]

    def test_long_names_do_not_crowd_the_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({f"{'long_' * 12}.py": LBFGS, f"{WIDE}.py": ON_CPU})
        lines = told(capsys, ".")
        assert "program                       trains  device  would apply  not applied" in lines
        row = next(line for line in lines if line.startswith("long_"))
        assert row.split()[1:] == ["Net", "CUDA", "compile", "amp.lbfgs"]

    def test_targets(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"a/train.py": TRAIN, "b/train.py": TRAIN, "b/requirements.txt": "torch>=2.9\n"})
        assert told(capsys, ".")[0].endswith(", edits for torch 2.9 and 2.15")

    def test_colours_on_terminals_only(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.setenv("TERM", "xterm-256color")
        lay({"a.py": TRAIN, "b.py": TRAIN})
        for paths in (["a.py"], ["a.py", "b.py"]):
            code, screen = converse(["scan", *paths], [])
            assert code == 0 and ANSI.search(screen)
            assert "Net" in screen


class TestBadInput:
    """What cannot be read is one line, and the rest goes on."""

    def test_an_unparsable_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"a.py": TRAIN, "b.py": ON_CPU, "bad.py": "import torch\n(\n"})
        capsys.readouterr()
        assert scan([Path(".")], (), {}, json=False, follow=True) == 123
        out, err = capsys.readouterr()
        assert err.splitlines() == ["speedpatch: bad.py:2:1: '(' was never closed"]
        assert "a.py     Net     CUDA" in out and out.endswith("2 files could gain, 1 file failed\n")

    def test_in_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"bad.py": "import torch\n(\n"})
        assert program(capsys, "bad.py") == {
            "path": "bad.py",
            "error": "bad.py:2:1: '(' was never closed",
            "torch": "2.15",
            "trains": False,
            "device": None,
            "found": [],
            "not_read": [],
            "optimizations": [],
        }

    def test_a_module_that_cannot_be_read(self, capsys: pytest.CaptureFixture[str]) -> None:
        lay({"train.py": TRAIN, "data.py": "(\n"})
        assert program(capsys)["trains"] is True

    def test_a_file_that_is_not_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert scan([Path("none.py")], (), {}, json=False, follow=True) == 123
        assert capsys.readouterr().err.startswith("speedpatch: none.py: ")

    def test_standard_input(self) -> None:
        with pytest.raises(UsageError, match="reads files"):
            scan([Path("-")], (), {}, json=False, follow=True)


def test_the_example_in_the_manual_is_what_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    scan([Path("examples/train.py")], ("amp", "compile"), {}, json=True, follow=True)
    printed = json.loads(capsys.readouterr().out)
    manual = (ROOT / "docs" / "commands.md").read_text().partition("\n## scan\n")[2]
    (block,) = re.findall(r"```json\n(.*?)```", manual, re.DOTALL)
    shown = json.loads(block)
    shown["versions"] = {"speedpatch": __version__, "python": platform.python_version()}
    assert shown == printed
