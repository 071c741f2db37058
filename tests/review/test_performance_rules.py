"""ESP401 to ESP405, ESP901, ESP902 and ESP001."""

from __future__ import annotations

import pytest

LOOPS = {
    "a list would do": ("for x in loader:\n    out = torch.cat([out, f(x)])\n", 1),
    "a tuple": ("for x in loader:\n    out = torch.cat((f(x), out), dim=0)\n", 1),
    "an attribute": ("for x in loader:\n    self.out = torch.cat([self.out, f(x)])\n", 1),
    "read in every round": ("for i in range(n):\n    ids = torch.cat([ids, model(ids)])\n    print(ids)\n", 0),
    "generation": ("for i in range(n):\n    token = model(ids).argmax()\n    ids = torch.cat([ids, token])\n", 0),
    "a test reads it": ("while True:\n    ids = torch.cat([ids, f(x)])\n    if ids.numel() > 9: break\n", 0),
    "made anew": ("for x in loader:\n    out = f(x)\n    out = torch.cat([out, out])\n", 0),
    "few rounds": ("for i in range(3):\n    out = torch.cat([out, f(i)])\n", 0),
    "once": ("out = torch.cat([out, f(x)])\n", 0),
    "something else": ("for x in loader:\n    y = torch.cat([a, b])\n", 0),
    "an array": ("import numpy as np\nfor x in loader:\n    out = np.append(out, f(x).cpu().numpy())\n", 1),
    "arrays": ("import numpy as np\nfor x in loader:\n    out = np.concatenate((out, f(x).numpy()), axis=0)\n", 1),
    "with an axis put before": ("for x in loader:\n    out = torch.cat((out, f(x).unsqueeze(0)))\n", 1),
    "the first round apart": ("for x in loader:\n    out = f(x) if out is None else torch.cat([out, f(x)])\n", 1),
    "a branch for the first round": (
        (
            "for i, x in enumerate(loader):\n"
            "    if i == 0:\n"
            "        out = f(x)\n"
            "    else:\n"
            "        out = torch.cat([out, f(x)])\n"
        ),
        1,
    ),
    "detached": ("for x in loader:\n    out = torch.cat([out, f(x)]).detach()\n", 1),
    "a sum of lists": ("for x in loader:\n    out = torch.cat([out] + [f(x)])\n", 1),
    "a store by key": ("for x in loader:\n    for k in names:\n        out[k] = torch.cat([out[k], f(x, k)])\n", 1),
    "many literal rounds": ("for i in range(1000):\n    out = torch.cat([out, f(i)])\n", 1),
    "its size is printed": ("for x in loader:\n    out = torch.cat([out, f(x)])\n    print(out.shape)\n", 1),
    "each element once": ("for i in range(len(rows)):\n    rows[i] = torch.cat([rows[i], pad])\n", 0),
    "few entries of a dict": ("for k, v in state.items():\n    out = torch.cat([out, v])\n", 0),
    "layers": ("for layer in self.layers:\n    out = torch.cat([out, layer(out)], 1)\n", 0),
    "a window": ("for x in loader:\n    out = torch.cat([out[1:], f(x)])\n", 0),
    "a dense block": ("for layer in block:\n    x = torch.cat([x, layer(x)], 1)\n", 0),
}


@pytest.mark.parametrize(("source", "count"), LOOPS.values(), ids=LOOPS)
def test_tensors_that_grow_by_copying_are_found(found, source, count):
    assert len(found("ESP401", f"import torch\n\n{source}")) == count


MOVES = {
    "in every step": ("for x in loader:\n    model.to(device)\n    model(x)\n", 1),
    "by cuda": ("for x in loader:\n    model = model.cuda()\n    model(x)\n", 1),
    "before": ("model.to(device)\nfor x in loader:\n    model(x)\n", 0),
    "the data": ("for x in loader:\n    x = x.to(device)\n    model(x)\n", 0),
    "a change of type": ("for x in loader:\n    model.to(torch.float16)\n    model(x)\n", 0),
    "over models": ("for model in models:\n    model.to(device)\n    model(x)\n", 0),
    "made in the loop": ("for fold in folds:\n    model = make()\n    model.to(device)\n    model(x)\n", 0),
    "in turns": ("for x in loader:\n    model.to('cuda')\n    model(x)\n    model.to('cpu')\n", 0),
    "now and then": ("for i in range(n):\n    if i % 100 == 0:\n        model.to(device)\n    model(x)\n", 0),
    "in a step that a loop calls": (
        "def step(model, x):\n    model.to(device)\n    model(x).backward()\n\nfor x in loader:\n    step(model, x)\n",
        1,
    ),
    "by its forward": ("while True:\n    net.cuda()\n    net.forward(x)\n", 1),
    "a layer in every forward": (
        (
            "from torch import nn\n"
            "class Net(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.head = nn.Linear(4, 4)\n"
            "    def forward(self, x):\n"
            "        self.head.to(x.device)\n"
            "        return self.head(x)\n"
        ),
        1,
    ),
    "a buffer in every forward": (
        (
            "from torch import nn\n"
            "class Net(nn.Module):\n"
            "    def forward(self, x):\n"
            "        return x + self.mask.to(x.device)\n"
        ),
        0,
    ),
}


@pytest.mark.parametrize(("source", "count"), MOVES.values(), ids=MOVES)
def test_models_moved_in_every_step_are_found(found, source, count):
    assert len(found("ESP402", f"import torch\n\n{source}")) == count


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("torch.autograd.set_detect_anomaly(True)\n", 1),
        ("torch.autograd.set_detect_anomaly(mode=True)\n", 1),
        ("with torch.autograd.detect_anomaly():\n    for x in loader:\n        model(x).backward()\n", 1),
        ("with torch.autograd.detect_anomaly():\n    model(x).backward()\n", 0),
        ("torch.autograd.set_detect_anomaly(False)\n", 0),
        ("torch.autograd.set_detect_anomaly(options.debug)\n", 0),
        ("if options.debug:\n    torch.autograd.set_detect_anomaly(True)\n", 0),
        ("if __name__ == '__main__':\n    torch.autograd.set_detect_anomaly(True)\n", 1),
        ("with torch.autograd.set_detect_anomaly(True):\n    for x in loader:\n        model(x).backward()\n", 1),
        (
            (
                "def fit():\n    for x in loader:\n"
                "        model(x).backward()\nwith torch.autograd.detect_anomaly():\n    fit()\n"
            ),
            1,
        ),
        ("for x in loader:\n    with torch.autograd.detect_anomaly():\n        model(x).backward()\n", 1),
        ("torch.autograd.set_detect_anomaly(True)\nfind()\ntorch.autograd.set_detect_anomaly(False)\n", 0),
        ("def hunt_nan():\n    torch.autograd.set_detect_anomaly(True)\n", 0),
        ("import lightning as L\ntrainer = L.Trainer(max_epochs=3, detect_anomaly=True)\n", 1),
        ("import lightning as L\ntrainer = L.Trainer(max_epochs=3, detect_anomaly=options.debug)\n", 0),
    ],
)
def test_anomaly_detection_that_no_option_turns_off_is_found(found, source, count):
    assert len(found("ESP404", f"import torch\n\n{source}")) == count


@pytest.mark.parametrize(("call", "count"), [("set_to_none=False", 1), ("False", 1), ("", 0), ("set_to_none=True", 0)])
def test_gradients_that_are_filled_with_zeros_are_found(found, call, count):
    assert len(found("ESP405", f"optimizer.zero_grad({call})\n")) == count


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("p.grad.zero_()", 1),
        ("p.grad.data.fill_(0)", 1),
        ("p.grad = None", 0),
        ("p.grad.mul_(0.5)", 0),
        ("p.zero_()", 0),
    ],
)
def test_gradients_that_a_step_fills_with_zeros_by_hand_are_found(found, line, count):
    source = f"for x in loader:\n    for p in model.parameters():\n        {line}\n    f(x).backward()\n"
    assert len(found("ESP405", source)) == count


def test_gradients_of_an_optimizers_groups_filled_with_zeros_are_found(found):
    source = 'for group in optimizer.param_groups:\n    for p in group["params"]:\n        p.grad.zero_()\n'
    assert found("ESP405", source) == ["p.grad.zero_()"]


@pytest.mark.parametrize(("call", "count"), [("nn.DataParallel(m)", 1), ("nn.parallel.DistributedDataParallel(m)", 0)])
def test_data_parallel_is_found(found, call, count):
    assert len(found("ESP403", f"from torch import nn\nm = {call}\n")) == count


@pytest.mark.parametrize(
    ("call", "severities"),
    [
        ("torch.load(p, weights_only=False)", ["warning"]),
        ("torch.load(p)", ["suggestion"]),
        ("torch.load(p, weights_only=True)", []),
        ("torch.load(p, weights_only=safe)", []),
        ("torch.load(p, **options)", []),
        ("json.load(p)", []),
    ],
)
def test_loads_that_may_run_code_are_found(call, severities):
    from esper_agents.review.engine import review_sources

    report = review_sources({"a.py": f"import torch\nx = {call}\n"}, rules=["ESP901"])
    assert [claim.severity.value for claim in report.claims] == severities


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("torch.hub.load('a/b', 'm')", 1),
        ("torch.hub.load(repo_or_dir='a/b', model='m')", 1),
        ("torch.hub.load('a/b:v1', 'm')", 0),
        ("torch.hub.load('./b', 'm', source='local')", 0),
        ("torch.hub.load(path, 'm')", 0),
    ],
)
def test_hub_models_of_a_moving_branch_are_found(found, call, count):
    assert len(found("ESP902", f"import torch\nm = {call}\n")) == count


@pytest.mark.parametrize(
    ("comment", "count"),
    [
        ("# esper: ignore", 1),
        ("# esper: ignore[ESP305]", 1),
        ("# esper: ignore[] because", 1),
        ("# esper: ignore because", 1),
        ("# esper: ignore[ESP305] the value steers the loop", 0),
        ("# esper is a language", 0),
    ],
)
def test_a_suppression_that_silences_nothing_is_found(found, comment, count):
    assert len(found("ESP001", f"x = 1  {comment}\n")) == count
    assert found("ESP001", f'x = "{comment}"\n') == []
