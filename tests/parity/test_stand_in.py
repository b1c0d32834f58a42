"""The stand-in shows a script the device that it stands in for, and refuses what the device refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from speedpatch.recorder import Recording, RecordingError, compare
from tests.parity.helpers import run

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

half = lambda: torch.autocast("cuda", dtype=torch.float16)
model = nn.Linear(4, 4).cuda()
host = torch.randn(3, 4)
x = host.to("cuda")
"""
TRUE = [
    "torch.cuda.is_available() and torch.cuda.device_count() == 1",
    "torch.device('cuda' if torch.cuda.is_available() else 'cpu').type == 'cuda'",
    "next(model.parameters()).is_cuda and next(model.parameters()).device == torch.device('cuda:0')",
    "not host.is_cuda and host.device.type == 'cpu'",
    "x.is_cuda and x is not host and x.data_ptr() != host.data_ptr() and x.to('cuda') is x and x.cuda() is x",
    "not x.cpu().is_cuda and x.cpu().data_ptr() != x.data_ptr() and host.cpu() is host",
    "model(x).is_cuda and (x + 1).is_cuda and model(x).sum().device.type == 'cuda'",
    "torch.zeros(2, device='cuda').is_cuda and torch.zeros(2, device=x.device).is_cuda and not torch.zeros(2).is_cuda",
    "torch.zeros_like(x).is_cuda and x.new_ones(2).is_cuda and torch.stack([x, x]).is_cuda and x[0].is_cuda",
    "nn.Linear(2, 2, device='cuda').weight.is_cuda and not nn.Linear(2, 2).weight.is_cuda",
    "not nn.Linear(2, 2).cuda().cpu().weight.is_cuda and nn.Linear(2, 2).to(x.device).weight.is_cuda",
    "x.to(torch.float64).is_cuda and x.double().is_cuda and x.to('cuda', torch.float64).dtype == torch.float64",
    "host.to(x).is_cuda and not x.to(host).is_cuda and host.to(0).is_cuda and x.get_device() == 0",
    "host.cuda(non_blocking=True).is_cuda and not host.pin_memory().is_cuda",
    "torch.randn(2, generator=torch.Generator('cuda').manual_seed(1), device='cuda').is_cuda",
    "torch.cuda.FloatTensor is not None and x.type(torch.cuda.FloatTensor).dtype == torch.float32",
    "torch.cuda.get_device_properties(0).total_memory > 0 and torch.cuda.memory_allocated() == 0",
    "torch.cuda.synchronize() is None and torch.cuda.Event(enable_timing=True).record() is None",
    "not torch.is_autocast_enabled('cuda')",
]


def run_text(text: str, folder: Path) -> Recording:
    """Record a script under the stand-in."""
    path = folder / "script.py"
    path.write_text(HEAD + text, encoding="utf-8")
    return run(path, folder, stand_in=True)


def test_claims_about_the_device(tmp_path: Path) -> None:
    lines = [f"assert {claim}, {claim!r}" for claim in TRUE]
    run_text("\n".join(lines) + "\n", tmp_path)


def test_gradients_and_optimizer_state_are_on_the_device(tmp_path: Path) -> None:
    text = "optimizer = torch.optim.Adam(model.parameters())\nmodel(x).sum().backward()\noptimizer.step()\n"
    run_text(
        text + "assert optimizer.state[model.weight]['exp_avg'].is_cuda and model.weight.grad is not None\n", tmp_path
    )


def test_autocast_acts_on_the_cpu_and_shows_as_cuda(tmp_path: Path) -> None:
    text = "with half():\n    out = model(x)\n    assert torch.is_autocast_enabled('cuda')\n"
    text += "assert out.dtype == torch.float16\nwith half():\n"
    text += "    with torch.autocast('cuda', enabled=False):\n        assert model(x).dtype == torch.float32\n"
    text += "    assert model(x).dtype == torch.float16\nassert model(x).dtype == torch.float32\n"
    text += "@torch.autocast('cuda', dtype=torch.bfloat16)\ndef f():\n    return model(x)\n"
    assert run_text(text + "assert f().dtype == torch.bfloat16\n", tmp_path).autocast() == (
        "cpu:bfloat16", "cpu:float16", "cuda:bfloat16", "cuda:float16",
    )  # fmt: skip


@pytest.mark.parametrize("call", ["x.softmax(1)", "x.half().exp()", "x.half().sum()", "F.mse_loss(model(x), x)"])
def test_autocast_follows_the_list_of_cuda(call: str, tmp_path: Path) -> None:
    run_text(f"with half():\n    assert ({call}).dtype == torch.float32\n", tmp_path)


@pytest.mark.parametrize("call", ["F.binary_cross_entropy(p, p)", "nn.BCELoss()(p, p)"])
def test_autocast_refuses_binary_cross_entropy(call: str, tmp_path: Path) -> None:
    text = (
        f"p = torch.full((2,), 0.5, device='cuda')\n{call}\nwith torch.autocast('cuda', enabled=False):\n    {call}\n"
    )
    run_text(text, tmp_path)
    with pytest.raises(RecordingError, match="unsafe to autocast"):
        run_text(f"{text}with half():\n    {call}\n", tmp_path)


def test_convolutions_round_to_float16(tmp_path: Path) -> None:
    text = "conv = nn.Conv1d(3, 2, 2).cuda()\nwith half():\n    out = conv(x)\nassert out.dtype == torch.float16\n"
    text += "out.float().sum().backward()\nexact = F.conv1d(x.half().float(), conv.weight.half().float())\n"
    run_text(text + "assert (out - exact - conv.bias[:, None]).abs().max() < 1e-2\n", tmp_path)


def test_recurrent_layers_run_in_float16(tmp_path: Path) -> None:
    text = "lstm = nn.LSTM(4, 5, batch_first=True).cuda()\nwith half():\n    out, (h, c) = lstm(x[None])\n"
    run_text(text + "assert out.dtype == h.dtype == torch.float16\nout.float().sum().backward()\n", tmp_path)


@pytest.mark.parametrize("name", ["torch.amp.GradScaler('cuda')", "torch.cuda.amp.GradScaler()"])
def test_scaler_is_enabled(name: str, tmp_path: Path) -> None:
    text = f"scaler = {name}\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    text += "scaler.scale(model(x).sum()).backward()\nscaler.step(optimizer)\nscaler.update()\n"
    recording = run_text(text + "assert scaler.state_dict()['scale'] > 1\n", tmp_path)
    assert recording.scalers[0].enabled
    assert recording.faults == ()


def test_compiled_module_runs(tmp_path: Path) -> None:
    text = "class Net(nn.Module):\n    def forward(self, x):\n        return model(x)\nnet = Net()\nnet.inner = model\n"
    text += "net.compile(backend='aot_eager')\nwith half():\n    out = net(x)\nassert out.is_cuda\n"
    recording = run_text(text + "out.sum().backward()\n", tmp_path)
    assert recording.compiled.backwards == 1
    assert recording.autocast() == ("cpu:float16", "cuda:float16")


def test_numbers_are_those_of_the_cpu(tmp_path: Path) -> None:
    text = "import torch\nfrom torch import nn\ndevice = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
    text += "model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 1)).to(device)\n"
    text += "optimizer = torch.optim.Adam(model.parameters())\nfor _ in range(4):\n    optimizer.zero_grad()\n"
    text += "    model(torch.randn(6, 4).to(device)).pow(2).mean().backward()\n    optimizer.step()\n"
    path = tmp_path / "script.py"
    path.write_text(text, encoding="utf-8")
    assert compare(run(path, tmp_path), run(path, tmp_path, stand_in=True), "exact").holds
