"""ESP406 and ESP411 to ESP413: logging, accumulation over processes, and loaders."""

from __future__ import annotations

from textwrap import dedent

import pytest

from esper_agents.review.engine import review_sources

STEP = """
import matplotlib.pyplot as plt
import torch
import wandb

for step, (x, y) in enumerate(loader):
    output = model(x)
    loss = criterion(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {line}
"""

LOGGED = {
    "writer.add_histogram('out', output, step)": "warning",
    "[writer.add_histogram(n, p, step) for n, p in model.named_parameters()]": "warning",
    "self.writer.add_image('x', x[0], step)": "warning",
    "tb.add_figure('f', draw(x), step)": "warning",
    "plt.savefig(f'{step}.png')": "warning",
    "torch.save(model.state_dict(), 'last.pt')": "warning",
    "wandb.log({'w': wandb.Histogram(output)})": "warning",
    "for n, p in model.named_parameters(): print(n, p.shape)": "warning",
    "print(step)": "suggestion",
    "print('step', step, 'of', len(loader))": "suggestion",
    "logger.info('step %d', step)": "suggestion",
    "logging.info(f'{step}')": "suggestion",
    "tqdm.write(str(step))": "suggestion",
    "writer.add_scalar('lr', scheduler.get_last_lr()[0], step)": "suggestion",
    "wandb.log({'lr': rate})": "suggestion",
}
QUIET = [
    "if step % 100 == 0: print(step)",
    "if step % 100 == 0: writer.add_histogram('out', output, step)",
    "if step == 0: print(x.shape)",
    "if step in marks: writer.add_image('x', x[0], step)",
    "if loss_value < best: torch.save(model.state_dict(), 'best.pt')",
    "if verbose: print(step)",
    "if rank == 0 and step % log_every == 0: wandb.log({'lr': rate})",
    "logger.debug('step %d', step)",
    "bar.set_description(f'step {step}')",
    "bar.update(1)",
    "self.log('lr', rate)",
    "math.log(step + 1)",
    "torch.log(output)",
    "file.write(line)",
    "print(loss)",
    "print(loss.item())",
]


@pytest.mark.parametrize(("line", "severity"), LOGGED.items(), ids=LOGGED)
def test_what_every_step_logs_is_found(line, severity):
    report = review_sources({"train.py": STEP.format(line=line)}, rules=["ESP411"])
    assert not report.unreadable
    assert [(claim.excerpt.strip(), claim.severity.value) for claim in report.claims] == [(line, severity)]


@pytest.mark.parametrize("line", QUIET)
def test_what_is_logged_now_and_then_or_said_by_another_rule_is_left_alone(found, line):
    assert found("ESP411", STEP.format(line=line)) == []


def test_a_line_for_each_epoch_is_left_alone(found):
    source = """
        for epoch in range(10):
            for x, y in loader:
                criterion(model(x), y).backward()
                optimizer.step()
            print(epoch)
            writer.add_histogram("w", model.weight, epoch)
        """
    assert found("ESP411", source) == []
    assert found("ESP411", "for epoch in range(10):\n    f(x).backward()\n    o.step()\n    print(epoch)\n") == []


def test_of_several_plain_lines_in_one_loop_the_first_is_found(found):
    assert found("ESP411", STEP.format(line="print(step)\n    print(len(x))")) == ["print(step)"]


ACCUMULATED = {
    "by a remainder": """
        def fit(model, loader, optimizer, accumulate):
            model = DistributedDataParallel(model, device_ids=[rank])
            for i, (x, y) in enumerate(loader):
                loss = criterion(model(x), y) / accumulate
                loss.backward()
                if (i + 1) % accumulate == 0 or i + 1 == len(loader):
                    optimizer.step()
                    optimizer.zero_grad()
        """,
    "with a scaler": """
        model = DDP(model)
        for i, (x, y) in enumerate(loader):
            with torch.autocast("cuda"):
                loss = criterion(model(x), y)
            scaler.scale(loss / 4).backward()
            if (i + 1) % 4 == 0:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        """,
    "in micro steps": """
        model = DDP(model)
        while True:
            for micro_step in range(gradient_accumulation_steps):
                loss = model(*batch()) / gradient_accumulation_steps
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "by a flag": """
        class Trainer:
            def __init__(self, model):
                self.model = DDP(model)

            def epoch(self):
                for i, batch in enumerate(self.loader):
                    is_boundary = (i + 1) % self.accumulation == 0
                    (self.model(batch) / self.accumulation).backward()
                    if is_boundary:
                        self.optimizer.step()
                        self.optimizer.zero_grad()
        """,
}
EVERY_TIME = {
    "one process": """
        for i, (x, y) in enumerate(loader):
            (criterion(model(x), y) / 4).backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
        """,
    "a step each time": """
        model = DDP(model)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        """,
    "held back": """
        model = DDP(model)
        for i, (x, y) in enumerate(loader):
            with model.no_sync() if (i + 1) % 4 else nullcontext():
                criterion(model(x), y).backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
        """,
    "held back by the attribute": """
        model = DDP(model)
        while True:
            for micro_step in range(gradient_accumulation_steps):
                model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
                model(*batch()).backward()
            optimizer.step()
        """,
    "logging by a remainder": """
        model = DDP(model)
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
            if i % 100 == 0:
                print(i)
        """,
    "left to a framework": """
        from accelerate import Accelerator

        model = DDP(model)
        for i, (x, y) in enumerate(loader):
            accelerator.backward(criterion(model(x), y))
            if i % 4 == 0:
                optimizer.step()
        """,
}
_IMPORTS = (
    "import torch\n"
    "from torch.nn.parallel import DistributedDataParallel\n"
    "from torch.nn.parallel import DistributedDataParallel as DDP\n"
)


@pytest.mark.parametrize("source", ACCUMULATED.values(), ids=ACCUMULATED)
def test_accumulations_that_average_every_time_are_found(found, source):
    assert len(found("ESP412", _IMPORTS + dedent(source))) == 1


@pytest.mark.parametrize("source", EVERY_TIME.values(), ids=EVERY_TIME)
def test_steps_that_need_the_average_or_hold_it_back_are_left_alone(found, source):
    assert found("ESP412", _IMPORTS + dedent(source)) == []


def test_a_model_that_another_file_wraps_is_followed(found):
    loop = (
        "def epoch(model, loader, optimizer):\n"
        "    for i, (x, y) in enumerate(loader):\n"
        "        loss = criterion(model(x), y)\n"
        "        loss.backward()\n"
        "        if (i + 1) % 4 == 0:\n"
        "            optimizer.step()\n"
    )
    main = _IMPORTS + "from loop import epoch\n\nepoch(DDP(net), loader, optimizer)\n"
    assert found("ESP412", {"loop.py": loop, "main.py": main}) == ["loss.backward()"]
    assert found("ESP412", {"loop.py": loop}) == []


FIT = """
from torch.utils.data import DataLoader

def fit(model, data, optimizer):
    model.cuda()
    loader = DataLoader({arguments})
    for x, y in loader:
        loss = criterion(model(x.cuda({move})), y.cuda({move}))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("arguments", "move", "severities"),
    [
        ("data, num_workers=4", "", ["suggestion"]),
        ("data, num_workers=4, pin_memory=False", "", ["suggestion"]),
        ("data, num_workers=4, pin_memory=False", "non_blocking=True", ["warning"]),
        ("data, batch_size=8", "non_blocking=True", ["warning"]),
        ("data, batch_size=8", "", ["suggestion"]),
        ("data, num_workers=4, pin_memory=True", "", []),
        ("data, num_workers=4, pin_memory=True", "non_blocking=True", []),
        ("data, num_workers=4, pin_memory=options.pin", "non_blocking=True", []),
        ("data, **options", "non_blocking=True", []),
    ],
)
def test_loaders_that_do_not_pin_are_found(arguments, move, severities):
    source = FIT.format(arguments=arguments, move=move)
    report = review_sources({"train.py": source}, rules=["ESP413"])
    assert [claim.severity.value for claim in report.claims] == severities


def test_a_loader_whose_batches_stay_on_the_host_is_left_alone(found):
    source = FIT.format(arguments="data, num_workers=4", move="").replace(".cuda()), y.cuda())", "), y)")
    assert found("ESP413", source) == []


def test_a_loader_of_another_function_is_followed(found):
    source = """
        from torch.utils.data import DataLoader

        def epoch(model, loader, device):
            for x, y in loader:
                x = x.to(device, non_blocking=True)
                criterion(model(x), y).backward()

        def main(data):
            model.cuda()
            loader = DataLoader(data, batch_size=8, num_workers=2)
            epoch(model, loader, "cuda")
        """
    assert found("ESP413", source) == ["loader = DataLoader(data, batch_size=8, num_workers=2)"]


def test_loaders_that_a_helper_hands_back_are_followed(found):
    source = """
        from torch.utils.data import DataLoader

        def loaders(data, held_out):
            train = DataLoader(data, num_workers=4)
            return train, DataLoader(held_out, num_workers=4, pin_memory=True)

        def main(data, held_out):
            model.cuda()
            train, test = loaders(data, held_out)
            for batch in train:
                batch = {k: v.to("cuda", non_blocking=True) for k, v in batch.items()}
                model(batch).backward()
        """
    assert found("ESP413", source) == ["train = DataLoader(data, num_workers=4)"]


def test_an_accumulating_step_of_another_file_is_followed(found):
    steps = (
        "class Step:\n"
        "    def __init__(self, model, optimizer):\n"
        "        self.model, self.optimizer, self.count = model, optimizer, 0\n"
        "    def __call__(self, x, y):\n"
        "        (criterion(self.model(x), y) / 8).backward()\n"
        "        self.count += 1\n"
        "        if self.count % 8 == 0:\n"
        "            self.optimizer.step()\n"
    )
    main = (
        _IMPORTS + "from steps import Step\n\nstep = Step(DDP(net), optimizer)\nfor x, y in loader:\n    step(x, y)\n"
    )
    assert found("ESP412", {"steps.py": steps, "main.py": main}) == ["(criterion(self.model(x), y) / 8).backward()"]
