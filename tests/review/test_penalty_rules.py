"""Cases of ESP252 and ESP256: losses that do not reach the weights as they should."""

from __future__ import annotations

import pytest

PENALTY = """
    import torch

    def {name}(D, real, fake):
        a = torch.rand(real.size(0), 1)
        x = (a * real + (1 - a) * fake).requires_grad_(True)
        {grad}
        return {result}
    """
NORM = "((g.flatten(1).norm(2, 1) - 1) ** 2).mean()"


@pytest.mark.parametrize(
    ("name", "grad", "result"),
    [
        ("gp", "g = torch.autograd.grad(D(x).sum(), x)[0]", NORM),
        ("lipschitz_term", "g, = torch.autograd.grad(outputs=D(x).sum(), inputs=x)", NORM),
        ("gp", "g = torch.autograd.grad(D(x).sum(), x, create_graph=False)[0]", NORM),
        ("r1_penalty", "g = torch.autograd.grad(D(x).sum(), x, retain_graph=True)[0]", "g.pow(2).sum()"),
        ("term", "g = torch.autograd.grad(D(x).sum(), [x])[0]\n        n = g.norm(dim=1)", "((n - 1) ** 2).mean()"),
    ],
)
def test_a_penalty_without_a_graph_is_reported(found, name, grad, result):
    source = PENALTY.format(name=name, grad=grad, result=result)
    assert len(found("ESP252", source)) == (0 if name == "term" else 1)


@pytest.mark.parametrize(
    ("name", "grad", "result"),
    [
        ("gp", "g = torch.autograd.grad(D(x).sum(), x, create_graph=True)[0]", NORM),
        ("gp", "g = torch.autograd.grad(D(x).sum(), x, None, None, True)[0]", NORM),
        ("sensitivity", "g = torch.autograd.grad(D(x).sum(), x)[0]", "g.abs().mean()"),
        ("gp", "g = torch.autograd.grad(D(x).sum(), x)[0]", "g"),
        ("gp", "g = torch.autograd.grad(D(x).sum(), D.parameters())[0]", NORM),
    ],
)
def test_a_gradient_with_a_graph_or_that_is_measured_is_not_reported(found, name, grad, result):
    assert found("ESP252", PENALTY.format(name=name, grad=grad, result=result)) == []


def test_a_gradient_in_a_loss_that_is_sent_backward_is_reported(found):
    source = """
        import torch

        def residual(u, x, f, optimizer):
            for _ in range(100):
                optimizer.zero_grad()
                u_x = torch.autograd.grad(u(x).sum(), x)[0]
                loss = ((u_x - f(x)) ** 2).mean()
                loss.backward()
                optimizer.step()
        """
    assert len(found("ESP252", source)) == 1
    assert found("ESP252", source.replace("sum(), x)", "sum(), x, create_graph=True)")) == []
    assert found("ESP252", source.replace("(u_x - f(x))", "(u_x.detach() - f(x))")) == []


def test_a_penalty_that_a_caller_trains_is_reported(found):
    source = """
        import torch

        def slope(D, x):
            g = torch.autograd.grad(D(x).sum(), x)[0]
            return g.norm(dim=1).mean()

        def train(D, loader, opt):
            for x in loader:
                loss = D(x).mean() + 10 * slope(D, x)
                loss.backward()
                opt.step()
        """
    assert len(found("ESP252", source)) == 1
    assert found("ESP252", source.replace("+ 10 * slope(D, x)", "; print(slope(D, x))")) == []


BYPASS = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    def main(rank, model, loader, opt, criterion):
        model = {wrap}
        for x, y in loader:
            opt.zero_grad()
            {forward}
            loss.backward()
            opt.step()
            {after}
    """
WRAP = "DDP(model.to(rank), device_ids=[rank])"


@pytest.mark.parametrize(
    "forward",
    [
        "loss = model.module(x, y)",
        "loss = criterion(model.module(x), y)",
        "out = model.module.forward(x)\n            loss = criterion(out, y)",
        "z = model.module.encode(x)\n            loss = criterion(z, y)",
    ],
)
def test_a_loss_past_the_wrapper_is_reported(found, forward):
    assert len(found("ESP256", BYPASS.format(wrap=WRAP, forward=forward, after="pass"))) == 1


@pytest.mark.parametrize(
    ("wrap", "forward", "after"),
    [
        (WRAP, "loss = criterion(model(x), y)", "pass"),
        (WRAP, "loss = criterion(model(x), y)", "print(model.module(x))"),
        (WRAP, "loss = criterion(model(x), y) + model.module.penalty()", "pass"),
        ("torch.nn.DataParallel(model)", "loss = model.module(x, y)", "pass"),
        ("model.to(rank)", "loss = model.module(x, y)", "pass"),
        (WRAP, "with torch.no_grad(): t = model.module(x)\n            loss = criterion(model(x), t)", "pass"),
    ],
)
def test_a_loss_of_the_wrapper_is_not_reported(found, wrap, forward, after):
    assert found("ESP256", BYPASS.format(wrap=wrap, forward=forward, after=after)) == []


def test_a_wrapper_of_the_object_is_followed(found):
    source = """
        from torch.nn.parallel import DistributedDataParallel

        class Trainer:
            def __init__(self, model, opt):
                self.model = DistributedDataParallel(model)
                self.opt = opt

            def fit(self, loader):
                for x in loader:
                    self.opt.zero_grad()
                    self.model.module(x).mean().backward()
                    self.opt.step()
        """
    assert len(found("ESP256", source)) == 1
    assert found("ESP256", source.replace("self.model.module(x)", "self.model(x)")) == []
