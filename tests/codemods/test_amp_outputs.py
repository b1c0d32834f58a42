"""Outputs are cast ahead of what is computed on them outside of the regions, and ahead of the CPU inside them."""

from __future__ import annotations

import pytest

from tests.codemods.amp_setup import LOOP, SCALED, SCALED_LOOP, SETUP
from tests.codemods.check import check_rewrites, dedent, run, text_of


@pytest.mark.parametrize(
    ("reads", "casts"),
    [
        pytest.param(
            "a = out.softmax(1).detach().cpu().numpy()",
            "a = out.float().softmax(1).detach().cpu().numpy()",
            id="method",
        ),
        pytest.param(
            "a = torch.sigmoid(out).numpy()", "a = torch.sigmoid(out.float()).numpy()", id="function of torch"
        ),
        pytest.param(
            "a = F.softmax(input=out.detach(), dim=1).cpu().numpy()",
            "a = F.softmax(input=out.detach().float(), dim=1).cpu().numpy()",
            id="function with keywords",
        ),
        pytest.param(
            "probs = torch.sigmoid(out)  # in [0, 1]\n    hits = probs > 0.5\n    a = probs.detach().cpu().numpy()",
            "probs = torch.sigmoid(out.float())  # in [0, 1]\n    hits = probs > 0.5\n"
            "    a = probs.detach().cpu().numpy()",
            id="by a name, cast once",
        ),
        pytest.param(
            "probs = torch.sigmoid(out)\n    a = probs.numpy()\n    b = probs[:, 1].cpu().numpy()",
            "probs = torch.sigmoid(out.float())\n    a = probs.numpy()\n    b = probs[:, 1].cpu().numpy()",
            id="read twice, cast once",
        ),
        pytest.param(
            "if t:\n        p = torch.sigmoid(out)\n    else:\n        p = out\n    a = p.numpy()",
            "if t:\n        p = torch.sigmoid(out.float())\n    else:\n        p = out\n    a = p.float().numpy()",
            id="one of two assignments computes",
        ),
        pytest.param("a = out.norm(dim=1).numpy()", "a = out.float().norm(dim=1).numpy()", id="norm"),
        pytest.param("a = out.logsumexp(1).numpy()", "a = out.float().logsumexp(1).numpy()", id="logsumexp"),
        pytest.param("a = out.cumsum(1).numpy()", "a = out.float().cumsum(1).numpy()", id="cumsum"),
        pytest.param("a = out.exp().sum(1).numpy()", "a = out.float().exp().sum(1).numpy()", id="one behind another"),
        pytest.param("a = (255 * out + 1).numpy()", "a = (255 * out.float() + 1).numpy()", id="arithmetic"),
        pytest.param("a = (out - out).numpy()", "a = (out - out).float().numpy()", id="arithmetic of two outputs"),
        pytest.param(
            "a = (2 * out + 3 * out).numpy()", "a = (2 * out + 3 * out).float().numpy()", id="a sum of products"
        ),
        pytest.param(
            "a = (out - out.tanh()).numpy()", "a = (out.float() - out.float().tanh()).numpy()", id="one side computes"
        ),
        pytest.param(
            "a = (1 - torch.sigmoid(out)).cpu().numpy()",
            "a = (1 - torch.sigmoid(out.float())).cpu().numpy()",
            id="complement of a probability",
        ),
        pytest.param(
            "kept = []\n    kept.append(out.softmax(1).cpu())\n    a = torch.cat(kept).numpy()",
            "kept = []\n    kept.append(out.float().softmax(1).cpu())\n    a = torch.cat(kept).numpy()",
            id="items of a list",
        ),
        pytest.param(
            "kept = []\n    kept.append(out.cpu())\n    a = torch.cat(kept).softmax(1).numpy()",
            "kept = []\n    kept.append(out.cpu())\n    a = torch.cat(kept).float().softmax(1).numpy()",
            id="computed behind a list",
        ),
        pytest.param("s = torch.sigmoid(out) @ w", "s = torch.sigmoid(out.float()) @ w", id="product of an expression"),
        pytest.param(
            "p = torch.sigmoid(out)\n    s = p @ w",
            "p = torch.sigmoid(out.float())\n    s = p @ w",
            id="product of a name",
        ),
        pytest.param("a = out.float().softmax(1).numpy()", "a = out.float().softmax(1).numpy()", id="cast already"),
        pytest.param("a = out.softmax(1).argmax(1).numpy()", "a = out.softmax(1).argmax(1).numpy()", id="indices"),
        pytest.param("a = out.softmax(1).tolist()", "a = out.softmax(1).tolist()", id="numbers of Python"),
        pytest.param("a = y.float().softmax(1).numpy()", "a = y.float().softmax(1).numpy()", id="labels"),
        pytest.param("a = out.cpu().detach().numpy()", "a = out.float().cpu().detach().numpy()", id="moved early"),
    ],
)
def test_casts_ahead_of_computation(reads: str, casts: str) -> None:
    check_rewrites("amp", f"{SETUP}{LOOP}    {reads}\n", f"{SCALED}{SCALED_LOOP}    {casts}\n")


def test_what_a_region_computes_is_cast_behind_it() -> None:
    val = "\nfor x, y in val:\n    probs = torch.softmax(model(x), 1)\n    rows.append(probs.cpu().numpy())\n"
    cast = (
        '\nfor x, y in val:\n    with torch.autocast("cuda", dtype=torch.float16):\n'
        "        probs = torch.softmax(model(x), 1)\n    rows.append(probs.float().cpu().numpy())\n"
    )
    check_rewrites("amp", SETUP + LOOP + val, SCALED + SCALED_LOOP + cast)


def test_helper_that_also_gets_labels_computes() -> None:
    helper = "\ndef array(t):\n    p = torch.sigmoid(t)\n    return p.numpy()\n"
    check_rewrites(
        "amp",
        SETUP + helper + LOOP + "    rows.append((array(out), array(y)))\n",
        SCALED + helper + SCALED_LOOP + "    rows.append((array(out.float()), array(y)))\n",
    )


def test_helper_that_takes_indices_of_what_it_gets() -> None:
    helper = "\ndef best(t):\n    t = t.detach()\n    return torch.max(t[:3], 1)[1].cpu().numpy()\n"
    reads = "    rows.append((best(out), best(y)))\n"
    check_rewrites("amp", SETUP + helper + LOOP + reads, SCALED + helper + SCALED_LOOP + reads)


def test_helper_that_narrows_what_it_gets_in_a_loop() -> None:
    helper = "\ndef array(t):\n    for i in range(3):\n        t = t[1:]\n    return t.cpu().numpy()\n"
    reads, casts = "    rows.append((array(out), array(y)))\n", "    rows.append((array(out.float()), array(y)))\n"
    check_rewrites("amp", SETUP + helper + LOOP + reads, SCALED + helper + SCALED_LOOP + casts)


STEP = """
huber = nn.SmoothL1Loss()
for x, a, t in loader:
    {}
    loss = huber(q, t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SCALED_STEP = """
huber = nn.SmoothL1Loss()
for x, a, t in loader:
    with torch.autocast("cuda", dtype=torch.float16):
        {}
        loss = huber(q, t)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("moves", "casts"),
    [
        pytest.param(
            "q = model(x.cuda()).cpu().gather(1, a)", "q = model(x.cuda()).float().cpu().gather(1, a)", id="cpu()"
        ),
        pytest.param("q = model(x.cuda()).to('cpu')", "q = model(x.cuda()).float().to('cpu')", id="to('cpu')"),
        pytest.param(
            "q = model(x.cuda()).to(torch.device('cpu'))",
            "q = model(x.cuda()).float().to(torch.device('cpu'))",
            id="to a device",
        ),
        pytest.param("q = model(x.cuda()).to('cuda')", "q = model(x.cuda()).to('cuda')", id="stays on the device"),
        pytest.param("q = model(x.cuda()).float().cpu()", "q = model(x.cuda()).float().cpu()", id="cast already"),
        pytest.param(
            "q = model(x.cuda()); i = q.argmax(1).cpu()", "q = model(x.cuda()); i = q.argmax(1).cpu()", id="indices"
        ),
        pytest.param(
            "q = model(x.cuda()); n = q.detach().cpu().tolist()",
            "q = model(x.cuda()); n = q.detach().cpu().tolist()",
            id="numbers of Python",
        ),
        pytest.param(
            "q = model(x.cuda()); n = q.detach().cpu().numpy()",
            "q = model(x.cuda()); n = q.detach().float().cpu().numpy()",
            id="array, cast once",
        ),
        pytest.param("q = model(x.cpu().cuda())", "q = model(x.cpu().cuda())", id="inputs"),
    ],
)
def test_casts_ahead_of_the_cpu(moves: str, casts: str) -> None:
    before = STEP.format(moves.replace("; ", "\n    "))
    after = SCALED_STEP.format(casts.replace("; ", "\n        "))
    check_rewrites("amp", SETUP + before, SCALED + after)


def test_a_loss_on_the_cpu_stays_there_under_bfloat16_of_the_cpu() -> None:
    before = dedent(SETUP).replace(".cuda()", "") + STEP.format("q = model(x).cpu().gather(1, a)")
    after = (
        dedent(SETUP).replace(".cuda()", "")
        + """
huber = nn.SmoothL1Loss()
for x, a, t in loader:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        q = model(x).cpu().gather(1, a)
        loss = huber(q, t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    )
    check_rewrites("amp", before, after, amp_dtype="bfloat16")


def test_output_that_is_one_only_at_times() -> None:
    source = """
    import torch
    from torch import nn

    model = nn.Conv2d(3, 3, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        if exported:
            image = run_exported(x)
        else:
            image = model(x)
    for step in range(3):
        image = image[0] if step else image
    save(image[0].clamp(0, 255).numpy())
    """
    text = text_of(run("amp", dedent(source), amp_dtype="bfloat16"))
    assert "image = model(x).float()" in text
    assert "save(image[0].clamp(0, 255).numpy())" in text
