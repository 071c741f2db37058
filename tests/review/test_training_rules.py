"""ESP101, ESP301 and ESP305 on training loops as people write them, right and wrong."""

from __future__ import annotations

import pytest

STEP = "optimizer.step()"
BACKWARD = "loss.backward()"

NOT_CLEARED = {
    "an epoch clears, its batches do not": """
        for epoch in range(3):
            optimizer.zero_grad()
            for x, y in loader:
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
        """,
    "a method of a trainer": """
        class Trainer:
            def fit(self):
                for x, y in self.loader:
                    loss = self.criterion(self.model(x), y)
                    loss.backward()
                    self.optimizer.step()
        """,
    "an optimizer known by how it was made": """
        import torch

        updater = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            updater.step()
        """,
    "mixed precision": """
        for x, y in loader:
            loss = criterion(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
    "accelerate": """
        for x, y in loader:
            loss = criterion(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
        """,
    "a while loop": """
        while step < total:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
        """,
    "only another loop clears": """
        for x, y in warmup:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        for x, y in loader:
            total = criterion(model(x), y)
            total.backward()
            optimizer.step()
        """,
}

CLEARED = {
    "at the end": """
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        """,
    "by the model": """
        for x, y in loader:
            model.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """,
    "accumulated over several batches": """
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y) / 4
            loss.backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
        """,
    "accumulated in an inner loop": """
        for batch in loader:
            optimizer.zero_grad()
            for x, y in batch:
                loss = criterion(model(x), y)
                loss.backward()
            optimizer.step()
        """,
    "the whole data in one step": """
        for epoch in range(3):
            optimizer.zero_grad()
            for x, y in loader:
                loss = criterion(model(x), y)
                loss.backward()
            optimizer.step()
        """,
    "gradients set to None by hand": """
        for x, y in loader:
            for p in model.parameters():
                p.grad = None
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """,
    "gradients zeroed by hand": """
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            for p in model.parameters():
                p.grad.zero_()
        """,
    "a closure": """
        for x, y in loader:
            def closure():
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                return loss
            optimizer.step(closure)
        """,
    "one step outside any loop": """
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        """,
    "no optimizer: a saliency map": """
        for x, y in loader:
            x.requires_grad_()
            loss = criterion(model(x), y)
            loss.backward()
            maps.append(x.grad.abs())
        """,
    "several optimizers": """
        for x, y in loader:
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
        """,
    "DeepSpeed, which clears by itself": """
        for x, y in loader:
            loss = engine(x, y)
            engine.backward(loss)
            engine.step()
        """,
    "only a scheduler steps": """
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            scheduler.step()
        """,
    "a helper that is not in sight takes the optimizer": """
        from elsewhere import reset

        for x, y in loader:
            reset(optimizer)
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """,
    "a gradient penalty before the step": """
        for real in loader:
            optimizer.zero_grad()
            penalty = gradient_penalty(critic, real)
            penalty.backward(retain_graph=True)
            loss = critic(real).mean()
            loss.backward()
            optimizer.step()
        """,
    "a trial with an optimizer of its own": """
        import torch

        for rate in rates:
            optimizer = torch.optim.SGD(fresh(), lr=rate)
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """,
    "a lambda clears": """
        for x, y in loader:
            on_step(lambda: optimizer.zero_grad())
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """,
}


@pytest.mark.parametrize("source", NOT_CLEARED.values(), ids=NOT_CLEARED)
def test_steps_on_gradients_that_were_never_cleared_are_found(found, source):
    assert len(found("ESP101", source)) == 1


@pytest.mark.parametrize("source", CLEARED.values(), ids=CLEARED)
def test_loops_that_clear_their_gradients_are_left_alone(found, source):
    assert found("ESP101", source) == []


CALLER = """
from steps import step

for x, y in loader:
    step(model, optimizer, x, y)
"""
HELPER = """
def step(model, optimizer, x, y):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


def test_a_step_function_and_its_loop_in_two_files_are_seen_together(found):
    assert found("ESP101", {"train.py": CALLER, "steps.py": HELPER}) == [BACKWARD]


def test_a_step_function_that_nothing_calls_in_a_loop_is_left_alone(found):
    assert found("ESP101", HELPER) == []


def test_the_loop_of_another_file_may_clear(found):
    clearing = CALLER.replace("    step(", "    optimizer.zero_grad()\n    step(")
    assert found("ESP101", {"train.py": clearing, "steps.py": HELPER}) == []


def test_a_helper_of_another_file_may_clear(found):
    helper = "def prepare(optimizer):\n    optimizer.zero_grad()\n"
    source = """
        from helpers import prepare

        for x, y in loader:
            prepare(optimizer)
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """
    assert found("ESP101", {"train.py": source, "pkg/helpers.py": helper}) == []
    assert len(found("ESP101", {"train.py": source, "pkg/helpers.py": "def prepare(optimizer):\n    pass\n"})) == 1


TRAINING = """
losses, history, total = [], {{}}, 0.0
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    output = model(x)
    loss = criterion(output, y)
    loss.backward()
    optimizer.step()
    {line}
"""

KEPT = [
    "losses.append(loss)",
    "losses.append(loss.mean())",
    "losses.append((i, loss))",
    "losses.append({'loss': loss})",
    "losses += [loss]",
    "total += loss",
    "total = total + loss",
    "total += loss * len(x)",
    "history[i] = loss",
    "self.losses.append(loss)",
    "losses.append(loss.cpu())",
]
NOT_KEPT = [
    "losses.append(loss.detach())",
    "losses.append(loss.item())",
    "losses.append(float(loss))",
    "losses.append(loss.detach().cpu())",
    "losses.append(loss.data)",
    "total += loss.item()",
    "total += loss.item() * len(x)",
    "total += loss.detach()",
    "history[i] = loss.item()",
    "history['last'] = loss",
    "last = loss",
    "self.last_loss = loss",
    "losses.append(y)",
    "losses.append(len(x))",
    "meter.update(loss)",
]


@pytest.mark.parametrize("line", KEPT)
def test_what_keeps_the_graph_of_every_loss_is_found(found, line):
    assert found("ESP301", TRAINING.format(line=line)) == [line]


@pytest.mark.parametrize("line", NOT_KEPT)
def test_what_lets_the_graph_go_is_left_alone(found, line):
    assert found("ESP301", TRAINING.format(line=line)) == []


NOT_GATHERED = {
    "the sum is what goes backward": """
        for batch in loader:
            total = 0
            for x, y in batch:
                total += criterion(model(x), y)
            total.backward()
        """,
    "a list whose sum goes backward": """
        for batch in loader:
            losses = []
            for x, y in batch:
                loss = criterion(model(x), y)
                losses.append(loss)
            total = sum(losses)
            total.backward()
        """,
    "several losses of one step": """
        for x, y in loader:
            loss = 0
            for head in heads:
                loss += criterion(head(x), y)
            loss.backward()
        """,
    "a list made anew in every round": """
        for x, y in loader:
            parts = []
            loss = criterion(model(x), y)
            loss.backward()
            parts.append(loss)
        """,
    "detached before it is gathered": """
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            loss = loss.detach()
            losses.append(loss)
        """,
    "summed under no_grad": """
        import torch

        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            with torch.no_grad():
                total += loss
        """,
    "an item under the same name": """
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            value = loss.item()
            losses.append(value)
        """,
}


@pytest.mark.parametrize("source", NOT_GATHERED.values(), ids=NOT_GATHERED)
def test_losses_that_are_not_gathered_over_steps_are_left_alone(found, source):
    assert found("ESP301", source) == []


def test_losses_that_a_lightning_module_gathers_are_found(found):
    source = """
        import lightning as L

        class Net(L.LightningModule):
            def training_step(self, batch, index):
                loss = self.criterion(self(batch.x), batch.y)
                self.losses.append(loss)
                return loss
        """
    assert found("ESP301", source) == ["self.losses.append(loss)"]
    assert found("ESP301", source.replace("append(loss)", "append(loss.detach())")) == []


FETCHED = [
    "total += loss.item()",
    "losses.append(loss.detach().cpu().numpy())",
    "print(loss.item())",
    "loss_cpu = loss.cpu()",
]
NOT_FETCHED = [
    "if i % 100 == 0: print(loss.item())",
    "if loss.item() > 100: break",
    "if verbose: print(loss.item())",
    "assert loss.item() == loss.item()",
    "names = table.items()",
    "total += loss.detach()",
    "config = settings.numpy()",
]


@pytest.mark.parametrize("line", FETCHED)
def test_fetches_in_every_step_are_found(found, line):
    assert found("ESP305", TRAINING.format(line=line)) == [line]


@pytest.mark.parametrize("line", NOT_FETCHED)
def test_fetches_now_and_then_or_for_a_decision_are_left_alone(found, line):
    assert found("ESP305", TRAINING.format(line=line)) == []


def test_a_value_that_a_later_test_reads_may_be_fetched(found):
    source = """
        for x, y in loader:
            loss = criterion(model(x), y)
            value = loss.item()
            if value > 1e4:
                raise SystemExit(1)
            loss.backward()
        """
    assert found("ESP305", source) == []


def test_a_fetch_once_for_each_epoch_is_left_alone(found):
    source = """
        for epoch in range(3):
            for x, y in loader:
                loss = criterion(model(x), y)
                loss.backward()
            print(loss.item())
        """
    assert found("ESP305", source) == []


def test_a_fetch_in_a_step_function_is_followed_to_its_loop(found):
    step = HELPER + "    return loss.item()\n"
    assert found("ESP305", {"train.py": CALLER, "steps.py": step}) == ["return loss.item()"]
    assert found("ESP305", step) == []


THROWN_AWAY = """
for x, y in loader:
    {first}
    loss = criterion(model(x), y)
    loss.backward()
    {between}
    optimizer.step()
"""


def test_gradients_that_are_cleared_before_they_are_used_are_found(found):
    cleared = THROWN_AWAY.format(first="pass", between="optimizer.zero_grad()")
    assert found("ESP101", cleared) == ["optimizer.zero_grad()"]


@pytest.mark.parametrize(
    "source",
    [
        THROWN_AWAY.format(first="optimizer.zero_grad()", between="pass"),
        THROWN_AWAY.format(first="optimizer.zero_grad()", between="if bad(loss): optimizer.zero_grad()"),
        THROWN_AWAY.format(first="optimizer.zero_grad()", between="other.zero_grad()"),
        THROWN_AWAY.format(first="optimizer.zero_grad()", between="optimizer.zero_grad(); again(x).backward()"),
        THROWN_AWAY.format(
            first="optimizer.zero_grad()", between="if bad(loss):\n        optimizer.zero_grad(); continue"
        ),
    ],
)
def test_clearing_that_leaves_a_step_its_gradients_is_left_alone(found, source):
    assert found("ESP101", source) == []


MANUAL = """
import lightning as L

class Net(L.LightningModule):
    def training_step(self, batch, index):
        one, two = self.optimizers()
        first = self.one(batch).mean()
        one.zero_grad()
        self.manual_backward(first)
        one.step()
        second = self.two(batch).mean()
        {clear}
        self.manual_backward(second)
        two.step()
"""


def test_a_framework_repeats_a_step_that_optimises_by_itself(found):
    assert found("ESP101", MANUAL.format(clear="pass")) == ["self.manual_backward(second)"]
    assert found("ESP101", MANUAL.format(clear="two.zero_grad()")) == []


METER = """
class Meter:
    def __init__(self):
        self.sum, self.values = 0, []

    def update(self, value, n=1):
        {body}

def fit(model, loader, optimizer):
    meter = Meter()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        meter.update({given}, len(x))
"""


@pytest.mark.parametrize(
    ("body", "given", "count"),
    [
        ("self.sum += value * n", "loss", 1),
        ("self.sum = self.sum + value", "loss", 1),
        ("self.values.append(value)", "loss", 1),
        ("self.sum += value * n", "loss.item()", 0),
        ("self.sum += value * n", "loss.detach()", 0),
        ("self.sum += value.item() * n", "loss", 0),
        ("self.last = value", "loss", 0),
        ("value = float(value); self.sum += value", "loss", 0),
    ],
)
def test_a_meter_that_adds_up_losses_keeps_their_graphs(found, body, given, count):
    assert len(found("ESP301", METER.format(body=body, given=given))) == count


MORE_KEPT = {
    "a part of the loss": """
        for x, y in loader:
            optimizer.zero_grad()
            rec, kl = reconstruct(x), divergence(x)
            loss = rec + beta * kl
            loss.backward()
            optimizer.step()
            total_rec += rec
        """,
    "a loss that a step hands back": """
        def step(model, x, y, optimizer):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        for x, y in loader:
            loss = step(model, x, y, optimizer)
            total += loss
        """,
    "a step that adds to its object": """
        class Trainer:
            def step(self, x, y):
                self.optimizer.zero_grad()
                loss = criterion(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                self.running += loss

            def fit(self):
                for x, y in self.loader:
                    self.step(x, y)
        """,
    "a record of it": """
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            record = {"step": i, "loss": loss}
            history.append(record)
        """,
    "a running average": """
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            smooth = 0.9 * smooth + 0.1 * loss
        """,
    "a scaled loss sent backward in place": """
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            (loss / 4).backward()
            optimizer.step()
            losses.append(loss)
        """,
}


@pytest.mark.parametrize("source", MORE_KEPT.values(), ids=MORE_KEPT)
def test_graphs_that_are_kept_in_other_ways_are_found(found, source):
    assert len(found("ESP301", source)) == 1


PAIR = """
import torch

d_optimizer = torch.optim.Adam(critic.parameters())
g_optimizer = torch.optim.Adam(painter.parameters())
for real in loader:
    critic.zero_grad()
    critic_loss = judge(critic(real))
    critic_loss.backward()
    d_optimizer.step()
    {clear}
    painter_loss = judge(critic(painter(noise)))
    painter_loss.backward()
    g_optimizer.step()
"""


def test_clearing_one_model_does_not_clear_the_other(found):
    assert found("ESP101", PAIR.format(clear="pass")) == ["painter_loss.backward()"]
    assert found("ESP101", PAIR.format(clear="painter.zero_grad()")) == []


def test_the_parts_of_a_summed_loss_keep_their_graphs(found):
    source = """
        for x, targets in loader:
            optimizer.zero_grad()
            losses = {k: criterion(head(x), targets[k]) for k, head in heads.items()}
            loss = sum(losses.values())
            loss.backward()
            optimizer.step()
            for k, v in losses.items():
                sums[k] += v
        """
    assert found("ESP301", source) == ["sums[k] += v"]
    assert found("ESP301", source.replace("+= v", "+= v.item()")) == []
