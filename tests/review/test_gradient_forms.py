"""ESP101, ESP204, ESP301 and ESP405 on the ways in which people write the training step."""

from __future__ import annotations

import pytest

STEP = """
def main(model, optimizer, loader):
    for step, (x, y) in enumerate(loader):
        {first}
        loss = criterion(model(x), y)
        {between}
        loss.backward()
        {last}
"""
ACCUMULATED = "if (step + 1) % 4 == 0: optimizer.step()"
CLEARED_WRONGLY = {
    "in every round of an accumulation": STEP.format(first="optimizer.zero_grad()", between="pass", last=ACCUMULATED),
    "every so many steps": STEP.format(
        first="if step % 10 == 0: optimizer.zero_grad()", between="pass", last="optimizer.step()"
    ),
    "only where the loss is no number": STEP.format(
        first="pass", between="if torch.isnan(loss): optimizer.zero_grad(); continue", last="optimizer.step()"
    ),
    "all of several optimizers": STEP.format(
        first="pass", between="pass", last="for each in optimizers.values(): each.step()"
    ),
    "in no closure": """
        def main(model, x, y):
            optimizer = torch.optim.LBFGS(model.parameters())
            def closure():
                loss = criterion(model(x), y)
                loss.backward()
                return loss
            for epoch in range(10):
                optimizer.step(closure)
        """,
    "backward and step in two methods": """
        class Trainer:
            def run(self):
                for batch in self.loader:
                    self.send_back(self.loss(batch))
                    self.update()

            def send_back(self, loss):
                self.scaler.scale(loss).backward()

            def update(self):
                self.scaler.step(self.optimizer)
                self.scaler.update()
        """,
}
CLEARED_RIGHTLY = {
    "after an accumulation": STEP.format(first="pass", between="pass", last=f"{ACCUMULATED}; optimizer.zero_grad()"),
    "before an accumulation": STEP.format(
        first="if step % 4 == 0: optimizer.zero_grad()", between="pass", last=ACCUMULATED
    ),
    "in one of two arms": STEP.format(
        first="if step % 2: optimizer.zero_grad()\n        else: optimizer.zero_grad(set_to_none=False)",
        between="pass",
        last="optimizer.step()",
    ),
    "a generator that steps now and then": """
        def main(G, D, opt_g, opt_d, loader):
            for i, x in enumerate(loader):
                opt_d.zero_grad()
                (D(x).mean() - D(G(z).detach()).mean()).backward()
                opt_d.step()
                opt_g.zero_grad()
                if i % 5 == 0:
                    (-D(G(z)).mean()).backward()
                    opt_g.step()
        """,
    "in the closure": CLEARED_WRONGLY["in no closure"].replace(
        "loss = criterion", "optimizer.zero_grad(); loss = criterion"
    ),
    "in the loop over two methods": CLEARED_WRONGLY["backward and step in two methods"].replace(
        "self.send_back(self.loss(batch))", "self.optimizer.zero_grad(); self.send_back(self.loss(batch))"
    ),
}


@pytest.mark.parametrize("source", CLEARED_WRONGLY.values(), ids=CLEARED_WRONGLY)
def test_gradients_that_are_cleared_at_the_wrong_time_are_found(found, source):
    assert len(found("ESP101", source)) == 1


@pytest.mark.parametrize("source", CLEARED_RIGHTLY.values(), ids=CLEARED_RIGHTLY)
def test_gradients_that_are_cleared_at_the_right_time_are_left_alone(found, source):
    assert found("ESP101", source) == []


RETURNED = """
class Trainer:
    def step(self, batch):
        self.optimizer.zero_grad()
        loss = self.model(batch)
        loss.backward()
        self.optimizer.step()
        return {returned}

    def run(self):
        total, losses = 0.0, []
        for batch in self.loader:
            {line}
"""


@pytest.mark.parametrize(
    ("returned", "line"),
    [
        ("loss", "total += self.step(batch)"),
        ("loss", "losses.append(self.step(batch))"),
        ("(loss, 3)", "loss, n = self.step(batch); total += loss * n"),
        ("{'loss': loss, 'n': 3}", "out = self.step(batch); total += out['loss']"),
    ],
)
def test_a_loss_that_a_step_hands_back_keeps_its_graph(found, returned, line):
    assert len(found("ESP301", RETURNED.format(returned=returned, line=line))) == 1
    assert found("ESP301", RETURNED.format(returned=returned.replace("loss", "loss.detach()"), line=line)) == []


def test_what_else_a_step_hands_back_is_left_alone(found):
    for returned, line in [
        ("(loss, 3)", "loss, n = self.step(batch); total += n"),
        ("{'loss': loss, 'n': 3}", "out = self.step(batch); total += out['n']"),
    ]:
        assert found("ESP301", RETURNED.format(returned=returned, line=line)) == []


GATHERED = """
import torch

for x, y in loader:
    outputs = model(x, y)
    loss = outputs.loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {line}
"""


@pytest.mark.parametrize(
    "line",
    [
        "total += outputs.loss",
        "total = torch.cat([total, loss.view(1)])",
        "total = torch.add(total, loss)",
        "total = loss if total is None else 0.9 * total + 0.1 * loss",
        "losses.insert(0, loss)",
    ],
)
def test_further_ways_to_keep_every_loss_are_found(found, line):
    assert len(found("ESP301", GATHERED.format(line=line))) == 1


@pytest.mark.parametrize(("line", "count"), [("total.add_(loss)", 1), ("total.add_(loss.detach())", 0)])
def test_a_tensor_that_every_loss_is_added_to_in_place_keeps_their_graphs(found, line, count):
    source = GATHERED.format(line=line).replace("import torch\n", "import torch\n\ntotal = torch.zeros(1)\n")
    assert len(found("ESP301", source)) == count


@pytest.mark.parametrize(
    "line",
    [
        "best = loss if loss < best else best",
        "total += outputs.count",
        "with torch.no_grad(): total.add_(loss)",
        "total = torch.cat([total, loss.detach().view(1)])",
    ],
)
def test_further_ways_to_keep_no_graph_are_left_alone(found, line):
    assert found("ESP301", GATHERED.format(line=line)) == []


def test_a_number_stays_one_when_it_is_divided(found):
    source = """
        def loss_and_grads(self):
            total = 0.0
            for trace in self.traces:
                part = 0
                for cost in trace:
                    part = part + weigh(cost)
                total += part.item() / self.number
                loss = -part
                (loss / self.number).backward()
        """
    assert found("ESP301", source) == []


def test_the_epoch_of_a_sampler_that_does_not_shuffle_says_nothing_of_the_other(found):
    source = """
        from torch.utils.data import DistributedSampler

        def main(model, data, held_out, optimizer):
            sampler = DistributedSampler(data)
            other = DistributedSampler(held_out, shuffle=False)
            for epoch in range(10):
                {told}.set_epoch(epoch)
                for x in loader:
                    optimizer.zero_grad()
                    model(x).backward()
                    optimizer.step()
        """
    assert found("ESP204", source.replace("{told}", "other")) == ["sampler = DistributedSampler(data)"]
    assert found("ESP204", source.replace("{told}", "sampler")) == []


ZEROED = [
    "for p in model.parameters(): p.grad *= 0",
    "for p in model.parameters(): p.grad = torch.zeros_like(p)",
    "for p in model.parameters(): p.grad[:] = 0",
    "for w in weights: w.grad.zero_()",
    "[p.grad.zero_() for p in model.parameters()]",
    "torch._foreach_zero_([p.grad for p in model.parameters()])",
]


@pytest.mark.parametrize("line", ZEROED)
def test_gradients_filled_with_zeros_are_found(found, line):
    assert found("ESP405", line) == [line]


@pytest.mark.parametrize(
    "line", ["for p in model.parameters(): p.grad = None", "for p in model.parameters(): p.data.zero_()"]
)
def test_gradients_let_go_and_parameters_zeroed_are_left_alone(found, line):
    assert found("ESP405", line) == []


BY_HAND = """
    import torch

    def train(model, critic, loader):
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            gradients = torch.autograd.grad(penalty(model, x), list(model.parameters()))
            optimizer.zero_grad()
            for p, g in zip(model.parameters(), gradients):
                {put}
            optimizer.step()

    def put(p, g):
        p.grad = g
    """
PUT = ["p.grad = g", "p.grad.copy_(g)", "p.grad += g", 'setattr(p, "grad", g)', "put(p, g)"]


@pytest.mark.parametrize("put", PUT)
def test_gradients_put_in_place_by_hand_after_the_clearing_are_not_thrown_away(found, put):
    assert found("ESP101", BY_HAND.format(put=put)) == []


@pytest.mark.parametrize("put", ["print(g.norm())", "p.grad = None", "kept.append(p.grad)"])
def test_gradients_cleared_and_not_put_back_are_thrown_away(found, put):
    assert found("ESP101", BY_HAND.format(put=put)) == ["optimizer.zero_grad()"]


HELD_BACK = """
    import torch

    def fit(net, loader, many=8):
        optimizer = torch.optim.AdamW(net.parameters())
        for epoch in range(4):
            for i, (x, y) in enumerate(loader):
                {first}
                loss = torch.nn.functional.mse_loss(net(x), y) / many
                loss.backward()
                {step}
                {last}
    """
STEPS = [
    "if (i + 1) % many == 0: optimizer.step()",
    "if not (i + 1) % many: optimizer.step()",
    "if (i + 1) % many == 0 or i + 1 == len(loader): optimizer.step()",
    "due = (i + 1) % many == 0\n                if due: optimizer.step()",
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("clear", ["optimizer.zero_grad()", "net.zero_grad()", "optimizer.zero_grad(set_to_none=True)"])
@pytest.mark.parametrize("place", ["first", "last"])
def test_clearing_in_every_round_of_an_accumulation_is_reported(found, step, clear, place):
    parts = {"first": "pass", "last": "pass", place: clear}
    assert found("ESP101", HELD_BACK.format(step=step, **parts)) == [clear]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("clear", ["optimizer.zero_grad()", "net.zero_grad()"])
def test_clearing_with_the_step_of_an_accumulation_is_left_alone(found, step, clear):
    together = step.replace("optimizer.step()", f"optimizer.step(); {clear}")
    assert found("ESP101", HELD_BACK.format(first="pass", step=together, last="pass")) == []


@pytest.mark.parametrize(
    ("first", "step"),
    [
        ("critic.zero_grad()", STEPS[0].replace("step()", "step(); optimizer.zero_grad()")),
        ("if i % many == 0: optimizer.zero_grad()", STEPS[0]),
        ("optimizer.zero_grad()", "if ready: optimizer.step()"),
    ],
)
def test_what_clears_something_else_or_at_times_is_no_discarded_accumulation(found, first, step):
    assert found("ESP101", HELD_BACK.format(first=first, step=step, last="pass")) == []
