"""Cases of gradients that another loss left, of teachers in training mode, and of sampling with graphs."""

from __future__ import annotations

import pytest

ADVERSARIAL = """
    import torch
    from torch import nn

    class Game:
        def __init__(self):
            self.made, self.judge = nn.Linear(8, 8), nn.Linear(8, 1)
            self.m_opt = torch.optim.Adam(self.made.parameters())
            self.j_opt = torch.optim.Adam(self.judge.parameters())

        def judged(self, real, fake):
            return self.judge(fake).mean() - self.judge(real).mean()

        def step(self, real):
            {clear}
            fake = self.made(torch.randn(4, 8))
            first = self.judged(real, {given})
            first.backward({keep})
            {between}
            second = -self.judge(fake).mean()
            second.backward()
            self.m_opt.step()
            {after}

    def fit(loader):
        game = Game()
        for real in loader:
            game.step(real)
    """
STEP = "self.j_opt.step()"
CLEAR = "self.m_opt.zero_grad(); self.j_opt.zero_grad()"


def adversarial(clear=CLEAR, given="fake", keep="retain_graph=True", between=STEP, after="pass"):
    return ADVERSARIAL.format(clear=clear, given=given, keep=keep, between=between, after=after)


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"clear": "[each.zero_grad() for each in (self.m_opt, self.j_opt)]"},
        {"between": "self.j_opt.step(); self.j_opt.zero_grad()"},
        {"given": "self.made(torch.randn(4, 8))", "keep": ""},
    ],
)
def test_gradients_that_another_loss_left_are_reported(found, form):
    assert found("ESP149", adversarial(**form)) == ["second.backward()"]


@pytest.mark.parametrize(
    "form",
    [
        {"given": "fake.detach()", "keep": ""},
        {"between": f"{STEP}; self.m_opt.zero_grad()"},
        {"between": f"{STEP}; self.made.zero_grad()"},
        {"between": "pass", "after": STEP},
    ],
)
def test_cleared_gradients_and_losses_of_both_networks_are_not_reported(found, form):
    assert found("ESP149", adversarial(**form)) == []


TEACHER = """
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torchvision import models

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1), nn.Linear(4, 10))

        def forward(self, x):
            return self.net(x)

    def build(path):
        net = models.resnet50(num_classes=10)
        state = torch.load(path, weights_only=True)
        net.load_state_dict(state["model"])
        {switch}
        return net

    @torch.no_grad()
    def targets(net, x):
        return net(x).softmax(1)

    def fit(loader):
        {made}
        student = models.resnet18(num_classes=10)
        opt = torch.optim.SGD(student.parameters(), 0.1)
        for epoch in range(3):
            student.train()
            {epoch}
            for x, y in loader:
                {run}
                loss = F.mse_loss(student(x), wanted)
                opt.zero_grad()
                loss.backward()
                opt.step()
    """
RUN = "with torch.no_grad(): wanted = teacher(x)"
MADE = 'teacher = build("a.pt")'


def taught(switch="pass", made=MADE, epoch="pass", run=RUN):
    return TEACHER.format(switch=switch, made=made, epoch=epoch, run=run)


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ({}, RUN),
        ({"run": "wanted = targets(teacher, x)"}, "return net(x).softmax(1)"),
        ({"made": 'teacher = Own(); teacher.load_state_dict(torch.load("a.pt", weights_only=True))'}, RUN),
    ],
)
def test_a_loaded_teacher_in_training_mode_is_reported(found, form, line):
    assert found("ESP102", taught(**form)) == [line]


@pytest.mark.parametrize(
    "form",
    [
        {"switch": "net.eval()"},
        {"epoch": "teacher.eval()"},
        {"made": "teacher = models.resnet50(num_classes=10)"},
        {"made": 'teacher = build("a.pt").train()'},
        {"epoch": "for a, b in zip(teacher.parameters(), student.parameters()): a.data.lerp_(b.data, 0.1)"},
    ],
)
def test_teachers_in_evaluation_mode_and_moving_averages_are_not_reported(found, form):
    assert found("ESP102", taught(**form)) == []


SAMPLER = """
    import torch
    import torch.nn as nn

    class Denoiser(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 8)

        def loss(self, x):
            return (self.net(x) - x).square().mean()

        {decorator}
        def sample(self, n):
            x = torch.randn(n, 8)
            {loop}
                {body}
            return x

    def fit(loader):
        model = Denoiser()
        opt = torch.optim.Adam(model.parameters())
        for x in loader:
            opt.zero_grad()
            {sent}.backward()
            opt.step()
        {used}
    """
FOR = "for t in reversed(range(1000)):"


def sampled(decorator="", loop=FOR, body="x = x - 0.1 * self.net(x)", sent="model.loss(x)", used=None):
    used = used or 'torch.save(model.sample(16).cpu(), "samples.pt")'
    return SAMPLER.format(decorator=decorator, loop=loop, body=body, sent=sent, used=used)


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"loop": "for t in torch.linspace(1, 0, 50):"},
        {"body": "eps = self.net(x); x = (x - eps) / 2 + torch.randn_like(x)"},
        {"used": "print(model.sample(4).mean().item())"},
    ],
)
def test_sampling_that_keeps_the_graph_of_all_rounds_is_reported(found, form):
    assert found("ESP302", sampled(**form)) == [form.get("body", "x = x - 0.1 * self.net(x)")]


@pytest.mark.parametrize(
    "form",
    [
        {"decorator": "@torch.no_grad()"},
        {"used": "with torch.inference_mode(): model.sample(4)"},
        {"body": "x = (x - self.net(x)).detach()"},
        {"sent": "(model.loss(x) + model.sample(2).mean())", "used": "pass"},
    ],
)
def test_sampling_without_graphs_and_unrolled_training_are_not_reported(found, form):
    assert found("ESP302", sampled(**form)) == []
