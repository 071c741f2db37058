"""ESP305: what training steps fetch from the device, and what else makes them wait."""

from __future__ import annotations

import pytest

from esper_agents.review.engine import review_sources

TRAINING = """
import torch

def fit(model, loader, optimizer, criterion, device):
    outputs, total, bar = [], 0.0, tqdm(loader)
    for i, (x, y) in enumerate(bar):
        x, y = x.to(device), y.to(device)
        output = model(x)
        loss = criterion(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
"""

WAITS = [
    "total += loss.item()",
    "total += float(loss)",
    "total += float(loss.detach())",
    "right = (output.argmax(1) == y).sum().item()",
    "total += int((output.argmax(1) == y).sum())",
    "print(loss)",
    "print(f'{i}: {loss:.3f}')",
    "print('loss %.3f' % loss)",
    "print('loss {}'.format(loss.detach()))",
    "logger.info('loss %s', loss)",
    "bar.set_postfix(loss=loss.item())",
    "bar.set_description(f'loss {loss.item():.2f}')",
    "bar.set_postfix({'loss': loss})",
    "writer.add_scalar('loss', loss, i)",
    "wandb.log({'loss': loss})",
    "outputs.extend(output.detach().cpu().numpy())",
    "values = output.tolist()",
    "torch.cuda.synchronize()",
    "torch.cuda.empty_cache()",
    "norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))",
    "grad_norm = sum(p.grad.norm().item() for p in model.parameters())",
]
NEED_NOT_WAIT = [
    "total += loss.detach()",
    "if i % 50 == 0: total += loss.item()",
    "if (i + 1) % 50 == 0: print(loss)",
    "if i == len(loader) - 1: print(loss.item())",
    "print(i, output.shape, len(loader))",
    "print(f'{i} of {len(loader)}')",
    "if torch.isnan(total): raise ValueError",
    "if loss_is_bad: raise ValueError(loss.item())",
    "learning_rate = float(optimizer.param_groups[0]['lr'])",
    "total += float(i)",
    "n = int(x.size(0))",
    "count = int(x.shape[0] / 2)",
    "writer.add_scalar('lr', scheduler.get_last_lr()[0], i)",
    "if time.time() - last > 10: print(loss.item())",
    "if global_step % log_every == 0: wandb.log({'loss': loss.item()})",
    "n = int(y.max().item()); mask = torch.arange(n)",
    "self.log('loss', loss)",
    "if args.empty_cache and i % 10 == 0: torch.cuda.empty_cache()",
    "state = {k: v.cpu() for k, v in model.state_dict().items()} if i % 1000 == 0 else None",
]


@pytest.mark.parametrize("line", WAITS)
def test_waits_for_the_device_in_every_step_are_found(found, line):
    assert found("ESP305", TRAINING.format(line=line)) == [line]


@pytest.mark.parametrize("line", NEED_NOT_WAIT)
def test_what_does_not_wait_in_every_step_is_left_alone(found, line):
    assert found("ESP305", TRAINING.format(line=line)) == []


STEPS = {
    "a method that a loop calls": """
        class Trainer:
            def fit(self):
                for batch in self.loader:
                    self.step(batch)

            def step(self, batch):
                loss = self.criterion(self.model(batch.x), batch.y)
                loss.backward()
                self.optimizer.step()
                self.history.append(loss.item())
        """,
    "a metric that the loop calls": """
        def accuracy(output, y):
            return (output.argmax(1) == y).float().mean().item()

        for x, y in loader:
            output = model(x)
            criterion(output, y).backward()
            optimizer.step()
            accuracy(output, y)
        """,
    "a loss module": """
        class Weighted(nn.Module):
            def forward(self, x, y):
                scale = (x - y).abs().max().item()
                return ((x - y) / scale).mean()

        criterion = Weighted()
        for x, y in loader:
            criterion(model(x), y).backward()
            optimizer.step()
        """,
    "a step of Lightning": """
        class Net(L.LightningModule):
            def training_step(self, batch, index):
                loss = self.loss(self.net(batch[0]), batch[1])
                self.total += loss.item()
                return loss
        """,
    "a closure": """
        for x, y in loader:
            def closure():
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                losses.append(loss.item())
                return loss
            optimizer.step(closure)
        """,
    "an inner loop over the losses": """
        for x, y in loader:
            losses = model(x, y)
            for loss in losses:
                loss.backward(retain_graph=True)
            optimizer.step()
            total += losses[0].item()
        """,
    "mixed precision": """
        while step < steps:
            x, y = next(batches)
            with torch.autocast("cuda"):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            running = 0.9 * running + 0.1 * loss.item()
            step += 1
        """,
    "a divided loss": """
        for i, batch in enumerate(loader):
            loss = model(**batch).loss
            (loss / 8).backward()
            if (i + 1) % 8 == 0:
                optimizer.step()
                optimizer.zero_grad()
            total += loss.item()
        """,
}
ASIDE = {
    "guarded by a continue": """
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            if i % 100:
                continue
            print(loss.item())
        """,
    "a report that decides for itself": """
        def log_step(step, loss):
            if step % 100 == 0:
                print(loss.item())

        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            log_step(i, loss)
        """,
    "an action in an environment": """
        for episode in range(1000):
            state = env.reset()
            for t in range(200):
                action = policy(state).sample()
                state, reward, done, _ = env.step(action.item())
                rewards.append(reward)
            loss = -torch.stack(rewards).sum()
            loss.backward()
            optimizer.step()
        """,
    "a choice of an action": """
        def select_action(state):
            return policy(state).argmax().item()

        for episode in range(1000):
            action = select_action(env.state)
            loss = learn(env.step(action))
            loss.backward()
            optimizer.step()
        """,
    "lengths of the batch, which never left the host": """
        for x, lengths in loader:
            longest = lengths.max().item()
            loss = criterion(model(x[:, :longest].cuda()))
            loss.backward()
            optimizer.step()
        """,
    "once for each epoch": """
        for epoch in range(10):
            for x, y in loader:
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
            print(epoch, loss.item())
            torch.cuda.empty_cache()
        """,
    "a measurement of time": """
        for x, y in loader:
            start = time.perf_counter()
            criterion(model(x), y).backward()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        """,
    "an adversarial attack": """
        for x, y in loader:
            x.requires_grad_(True)
            loss = criterion(model(x), y)
            loss.backward()
            total += loss.item()
        """,
}


@pytest.mark.parametrize("source", STEPS.values(), ids=STEPS)
def test_steps_that_are_written_otherwise_are_found(found, source):
    assert len(found("ESP305", f"import torch\nimport lightning as L\nfrom torch import nn\n{_flush(source)}")) == 1


@pytest.mark.parametrize("source", ASIDE.values(), ids=ASIDE)
def test_fetches_with_a_reason_are_left_alone(found, source):
    assert found("ESP305", f"import time\nimport torch\n{_flush(source)}") == []


def _flush(source: str) -> str:
    from textwrap import dedent

    return dedent(source)


def _severities(rule: str, source: str) -> list[str]:
    return [claim.severity.value for claim in review_sources({"train.py": source}, rules=[rule]).claims]


def test_a_fetch_once_for_each_whole_pass_is_advice():
    source = (
        "for epoch in range(200):\n"
        "    loss = criterion(model(graph), graph.y)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    losses.append(loss.item())\n"
    )
    assert _severities("ESP305", source) == ["suggestion"]


def test_a_decision_by_a_tensor_is_advice():
    assert _severities("ESP305", TRAINING.format(line="if loss > 10: break")) == ["suggestion"]


def test_a_number_for_each_batch_of_an_evaluation_is_advice_and_said_once():
    source = (
        "@torch.no_grad()\n"
        "def evaluate(model, loader):\n"
        "    model.eval()\n"
        "    for x, y in loader:\n"
        "        output = model(x)\n"
        "        total += criterion(output, y).item()\n"
        "        right += (output.argmax(1) == y).sum().item()\n"
    )
    assert _severities("ESP305", source) == ["suggestion"]


def test_a_helper_in_another_file_is_followed(found):
    files = {
        "metrics.py": "def top1(output, y):\n    return (output.argmax(1) == y).float().mean().item()\n",
        "train.py": (
            "from metrics import top1\n"
            "for x, y in loader:\n"
            "    output = model(x)\n"
            "    criterion(output, y).backward()\n"
            "    optimizer.step()\n"
            "    meter.update(top1(output, y))\n"
        ),
    }
    assert found("ESP305", files) == ["return (output.argmax(1) == y).float().mean().item()"]
    assert found("ESP305", {"metrics.py": files["metrics.py"]}) == []
