"""Cases of ESP110 and ESP111: graphs that are sent backward twice, and losses without a graph."""

from __future__ import annotations

import pytest

NET = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(8, 16, batch_first=True)
            self.head = nn.Linear(16, 4)

        def forward(self, x, state=None):
            out, state = self.rnn(x, state)
            return self.head(out), state

    def cut(state):
        return tuple(part.detach() for part in state)
    """
CARRIED = (
    NET
    + """
    def train(loader, every):
        net = Net()
        opt = torch.optim.Adam(net.parameters())
        state = None
        for step, (x, y) in enumerate(loader):
            {before}
            logits, state = net(x, state)
            {after}
            loss = F.cross_entropy(logits.transpose(1, 2), y)
            opt.zero_grad()
            loss.backward({options})
            opt.step()
    """
)
TRAINER = (
    NET
    + """
    class Trainer:
        def __init__(self, loader):
            self.loader = loader
            self.net = Net()
            self.opt = torch.optim.Adam(self.net.parameters())
            self.state = None

        def fit(self):
            for x, y in self.loader:
                self.step(x, y)

        def step(self, x, y):
            self.opt.zero_grad()
            logits, self.state = self.net(x, {given})
            F.cross_entropy(logits.transpose(1, 2), y).backward()
            self.opt.step()
    """
)
ADVERSARIAL = """
    import torch
    from torch import nn

    gen, critic = nn.Linear(64, 8), nn.Linear(8, 1)
    bce = nn.BCEWithLogitsLoss()
    og, oc = torch.optim.Adam(gen.parameters()), torch.optim.Adam(critic.parameters())
    for real, _ in loader:
        fake = gen(torch.randn(len(real), 64))
        first = bce(critic(real), ones) + bce(critic({fake}), zeros)
        oc.zero_grad()
        first.backward({options})
        oc.step()
        og.zero_grad()
        second = bce(critic(fake), ones)
        second.backward()
        og.step()
    """


def carried(before="pass", after="pass", options=""):
    return CARRIED.format(before=before, after=after, options=options)


@pytest.mark.parametrize("options", ["", "retain_graph=True"])
def test_a_state_carried_with_its_graph_is_reported(found, options):
    assert found("ESP110", carried(options=options)) == [f"loss.backward({options})"]


def test_a_kept_graph_is_carried_on_though_no_optimizer_steps(found):
    source = carried(options="retain_graph=True").replace("opt.step()", "net.head.weight.data.sub_(0.1)")
    assert found("ESP110", source) == ["loss.backward(retain_graph=True)"]


def test_a_state_kept_in_an_attribute_is_reported(found):
    assert len(found("ESP110", TRAINER.format(given="self.state"))) == 1


@pytest.mark.parametrize(
    "cases",
    [
        {"before": "state = cut(state) if state is not None else None"},
        {"before": "state = None"},
        {"after": "state = cut(state)"},
        {"after": "state = [part.detach() for part in state]"},
        {"before": "if step % every == 0: state = None"},
    ],
)
def test_a_state_that_is_or_may_be_cut_is_not_reported(found, cases):
    assert found("ESP110", carried(**cases)) == []
    assert found("ESP303", carried(**cases)) == []


OPEN = """
    class Trainer:
        def __init__(self, model, lr):
            self.model = model.to("cuda")
            self.opt = torch.optim.Adam(model.parameters(), lr=lr)

        def fit(self, loader):
            self.model.train()
            state = None
            for x, y in loader:
                self.opt.zero_grad()
                logits, state = self.model(x, {given})
                F.cross_entropy(logits, y).backward()
                self.opt.step()
    """


def test_a_model_from_outside_is_taken_for_one_of_the_project_that_detaches_nothing(found):
    assert len(found("ESP110", NET + OPEN.format(given="state"))) == 1
    assert found("ESP110", NET + OPEN.format(given="None")) == []
    assert (
        found(
            "ESP110", NET.replace("return self.head(out), state", "return self.head(out)") + OPEN.format(given="state")
        )
        == []
    )
    detaching = NET.replace("return self.head(out), state", "return self.head(out), cut(state.detach())")
    assert found("ESP110", detaching + OPEN.format(given="state")) == []


def test_a_graph_of_one_batch_sent_backward_twice_is_reported(found):
    assert found("ESP110", ADVERSARIAL.format(fake="fake", options="")) == ["second.backward()"]


@pytest.mark.parametrize(("fake", "options"), [("fake.detach()", ""), ("fake", "retain_graph=True")])
def test_a_detached_or_retained_graph_is_not_reported(found, fake, options):
    assert found("ESP110", ADVERSARIAL.format(fake=fake, options=options)) == []


def test_a_forward_before_the_loop_that_each_round_sends_backward_is_reported(found):
    source = """
    import torch
    from torch import nn

    encoder, head = nn.Linear(8, 4), nn.Linear(4, 2)
    opt = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
    codes = encoder(x)
    for epoch in range(10):
        opt.zero_grad()
        nn.functional.cross_entropy(head({codes}), y).backward()
        opt.step()
    """
    assert len(found("ESP110", source.format(codes="codes"))) == 1
    assert found("ESP110", source.format(codes="codes.detach()")) == []
    assert found("ESP110", source.replace("head({codes})", "head(encoder(x))")) == []


STEP = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    model = nn.Linear(8, 4)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        opt.zero_grad()
        {lines}
        loss.backward()
        opt.step()
    """


@pytest.mark.parametrize(
    "lines",
    [
        "loss = F.mse_loss(model(x).argmax(1).float(), y)",
        "loss = F.cross_entropy(model(x).detach(), y)",
        "with torch.no_grad(): scores = model(x)\n        loss = F.cross_entropy(scores, y)",
        "with torch.inference_mode(): loss = F.cross_entropy(model(x), y)",
        "loss = (model(x).argmax(-1) != y).float().mean()",
    ],
)
def test_a_loss_without_a_graph_is_reported(found, lines):
    assert found("ESP111", STEP.format(lines=lines)) == ["loss.backward()"]


@pytest.mark.parametrize(
    "lines",
    [
        "loss = F.cross_entropy(model(x), model(x).argmax(1))",
        "loss = F.cross_entropy(model(x), y).detach().requires_grad_(True)",
        "loss = torch.tensor(F.cross_entropy(model(x), y).item(), requires_grad=True)",
        "with torch.inference_mode(False): loss = F.cross_entropy(model(x), y)",
        "with torch.set_grad_enabled(flag): loss = F.cross_entropy(model(x), y)",
        "loss = unknown(model(x))",
    ],
)
def test_a_loss_that_has_or_may_have_a_graph_is_not_reported(found, lines):
    assert found("ESP111", STEP.format(lines=lines)) == []


def test_a_frozen_critic_passes_the_graph_of_its_inputs_on(found):
    source = """
    class Gan:
        def __init__(self, gen, critic):
            self.gen, self.critic = gen.train(), critic.train()

        def step(self, noise):
            self.critic.requires_grad_(False)
            loss = -self.critic(self.gen(noise)).mean()
            loss.backward()
    """
    assert found("ESP111", source) == []
