"""ESP102, ESP103 and ESP302 on the ways in which people evaluate without a loop, through helpers and in classes."""

from __future__ import annotations

import pytest

HEAD = """
import torch
from torch import nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.fc(self.drop(x))

    @torch.no_grad()
    def generate(self, x, n):
        for _ in range(n):
            x = torch.cat((x, self(x)), 1)
        return x

def forward_batch(model, batch):
    return model(batch["x"])

def predict(model, x):
    with torch.no_grad():
        return model(x).argmax(-1)

@torch.no_grad()
def accuracy(model, loader):
    return sum((model(x).argmax(1) == y).sum().item() for x, y in loader)

def main(loader, held_out):
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
"""
IN_TRAINING_MODE = {
    "all held-out data at once": """
        with torch.no_grad():
            error = F.cross_entropy(net(x_val), y_val)
    """,
    "after training": """
    with torch.no_grad():
        print((net(x_test).argmax(1) == y_test).float().mean())
    """,
    "a function that predicts": """
    print(predict(net, examples))
    """,
    "a method that generates": """
        print(net.generate(start, 20))
    """,
    "a comprehension": """
        print(accuracy(net, held_out))
    """,
    "outputs gathered": """
    with torch.inference_mode():
        for x, _ in held_out:
            outputs.append(net(x).cpu())
    """,
    "through a helper": """
        with torch.no_grad():
            for batch in held_out:
                right += (forward_batch(net, batch).argmax(1) == batch["y"]).sum().item()
    """,
    "the switch without brackets": """
        net.eval
        with torch.no_grad():
            for x, y in held_out:
                error += F.cross_entropy(net(x), y).item()
    """,
    "a loss is switched instead": """
        criterion.eval()
        with torch.no_grad():
            for x, y in held_out:
                error += criterion(net(x), y).item()
    """,
}
IN_EVALUATION_MODE = {
    "switched before the function": """
    net.eval()
    print(predict(net, examples))
    """,
    "Monte Carlo dropout": """
    with torch.no_grad():
        print(torch.stack([net(x_test) for _ in range(20)]).std(0))
    """,
    "targets for the next step": """
        with torch.no_grad():
            chosen = net(x).argmax(1)
        F.cross_entropy(net(x), chosen).backward()
    """,
    "a loss has no mode": """
    with torch.no_grad():
        for x, y in held_out:
            error.append(criterion(x, y).item())
    """,
}


@pytest.mark.parametrize("end", IN_TRAINING_MODE.values(), ids=IN_TRAINING_MODE)
def test_evaluations_in_training_mode_are_found_however_they_are_written(found, end):
    assert len(found("ESP102", HEAD + end)) == 1


@pytest.mark.parametrize("end", IN_EVALUATION_MODE.values(), ids=IN_EVALUATION_MODE)
def test_what_looks_like_such_an_evaluation_is_left_alone(found, end):
    assert found("ESP102", HEAD + end) == []


def test_layers_without_a_mode_need_no_switch(found):
    source = HEAD + IN_TRAINING_MODE["after training"]
    for layer, count in {
        "nn.LSTM(4, 2)": 0,
        "nn.LSTM(4, 2, num_layers=2, dropout=0.1)": 1,
        "nn.BatchNorm1d(4)": 1,
        "nn.InstanceNorm1d(4)": 0,
    }.items():
        assert len(found("ESP102", source.replace("nn.Dropout(0.5)", layer))) == count, layer


def test_a_model_that_a_function_hands_back_is_known_by_its_layers(found):
    source = HEAD + "    head = probe()\n    print(predict(head, examples))\n\ndef probe():\n    return {layers}\n"
    made = "head = nn.Sequential({})\n    head.load_state_dict(state)\n    return head"
    assert found("ESP102", source.replace("return {layers}", made.format("nn.Linear(4, 2), nn.ReLU()"))) == []
    assert len(found("ESP102", source.replace("return {layers}", made.format("nn.Linear(4, 2), nn.Dropout()")))) == 1


def test_a_model_that_was_given_its_weights_and_not_switched_is_found(found):
    source = HEAD.partition("def main")[0] + (
        "def show(path, image):\n    net = Net()\n    net.load_state_dict(torch.load(path, weights_only=True))\n"
        "    with torch.no_grad():\n        return net(image)\n"
    )
    assert found("ESP102", source) == ["return net(image)"]
    assert found("ESP102", source.replace("    with", "    net.eval()\n    with")) == []


def test_globals_are_followed_through_functions(found):
    source = """
        import torch
        from nets import GCN

        model = GCN()
        optimizer = torch.optim.Adam(model.parameters())

        def train():
            model.train()
            optimizer.zero_grad()
            criterion(model(data.x), data.y).backward()
            optimizer.step()

        @torch.no_grad()
        def test():
            out = model(data.x)
            return (out.argmax(1) == data.y).float().mean().item()

        def main():
            for epoch in range(200):
                train()
                print(test())
        """
    assert found("ESP102", source) == ["out = model(data.x)"]
    assert found("ESP102", source.replace("out = model", "model.eval(); out = model")) == []


def test_a_caller_two_calls_up_may_switch_and_unwrapping_makes_no_new_model(found):
    source = """
        import torch

        def run(model, loader):
            with torch.no_grad():
                for x, y in loader:
                    right += (model(x).argmax(1) == y).sum().item()

        def zero_shot(model, loader, args):
            if args.distributed:
                model = model.module
            run(model, loader)

        def evaluate(model, loader, args):
            {switch}
            zero_shot(model, loader, args)

        def fit(model, loader, optimizer, args):
            for x, y in loader:
                model.train()
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            evaluate(model, loader, args)
        """
    assert found("ESP102", source.replace("{switch}", "model.eval()")) == []
    assert len(found("ESP102", source.replace("{switch}", "pass"))) == 1


ROUND = """
import torch

def main(model, loader, held_out, optimizer):
    model.train()
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        {end}

def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right
    model.train()

class Evaluator:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader

    def __call__(self):
        self.model.eval()
        return evaluate(self.model, self.loader)
"""


@pytest.mark.parametrize(
    "end",
    ["evaluate(model, held_out)", "check = Evaluator(model, held_out)\n        check()"],
    ids=["unreachable", "object"],
)
def test_a_switch_back_that_nothing_reaches_is_none(found, end):
    assert len(found("ESP103", ROUND.format(end=end))) == 1


def test_a_model_made_in_each_round_may_end_in_evaluation_mode(found):
    source = """
        for fold in folds:
            model = Net()
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in fold.loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                print(criterion(model(fold.x), fold.y))
        """
    assert found("ESP103", source) == []
    assert found("ESP103", source.replace("    model = Net()\n", "    pass\n")) == ["model.eval()"]


def test_what_runs_without_gradients_in_another_function_is_not_trained(found):
    source = """
        import torch

        @torch.inference_mode()
        def run(model, loader):
            model.eval()
            for x, y in loader:
                right += (model(x).argmax(1) == y).sum().item()

        def fit(model, average, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
                run(model=average.weights, loader=loader)
        """
    assert found("ESP103", source) == []


WITH_GRADIENTS = {
    "a new model": "    net = Net().to('cuda').eval()\n    for x, _ in loader:\n        keep(net(x).cpu())\n",
    "a helper": "    net.eval()\n    for batch in loader:\n        keep(forward_batch(net, batch).cpu())\n",
    "detached too late": "    net.eval()\n    for x, _ in loader:\n        keep(net(x).detach())\n",
}


@pytest.mark.parametrize("body", WITH_GRADIENTS.values(), ids=WITH_GRADIENTS)
def test_graphs_built_in_vain_are_found_through_helpers_and_chains(found, body):
    head = HEAD.partition("def main")[0] + "def extract(net, loader):\n"
    assert len(found("ESP302", head + body)) == 1
    off = "    with torch.no_grad():\n" + "".join(f"    {line}\n" for line in body.splitlines())
    assert found("ESP302", head + off) == []


def test_a_model_tried_out_as_it_is_made_is_no_evaluation(found):
    source = "for size in sizes:\n    block = Block(size).eval()\n    layers.append(block)\n    x = block(x)\n"
    assert found("ESP302", source) == []
