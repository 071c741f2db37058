"""Training steps that keep tensors they should not: each factory returns a step that leaks in its own way."""

import collections
import functools
import queue

import torch
from torch import nn

history = []
seen = {}


class Training:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def loss(self):
        return self.model(torch.randn(16, 32)).square().mean()

    def update(self, loss, **options):
        self.optimizer.zero_grad()
        loss.backward(**options)
        self.optimizer.step()


class Trainer(Training):
    def __init__(self):
        super().__init__()
        self.losses = []

    def step(self):
        loss = self.loss()
        self.update(loss)
        self.losses.append(loss)


def list_of_losses():
    return Trainer().step


class WithState(Training):
    def __init__(self):
        super().__init__()
        self.hidden = torch.zeros(16, 64)
        self.cell = nn.GRUCell(32, 64)

    def step(self):
        self.hidden = self.cell(torch.randn(16, 32), self.hidden)


def attribute_with_graph():
    return WithState().step


class Summing(Training):
    def __init__(self):
        super().__init__()
        self.total = 0.0

    def step(self):
        loss = self.loss()
        self.update(loss)
        self.total += loss


def running_sum():
    return Summing().step


class Meter:
    def __init__(self):
        self.series = {}

    def update(self, **numbers):
        for name, number in numbers.items():
            self.series.setdefault(name, []).append(number)


def meter_of_tensors():
    training, meter = Training(), Meter()

    def step():
        loss = training.loss()
        training.update(loss)
        meter.update(loss=loss)

    return step


def closure():
    training = Training()
    outputs = []

    def step():
        output = training.model(torch.randn(16, 32))
        training.update(output.mean())
        outputs.append(output)

    return step


def module_global():
    training = Training()

    def step():
        loss = training.loss()
        training.update(loss)
        history.append(loss)

    return step


def hook_that_keeps():
    training = Training()
    features = []
    training.model[1].register_forward_hook(lambda module, inputs, output: features.append(output))

    def step():
        training.update(training.loss())

    return step


def second_order_gradient():
    training = Training()

    def step():
        training.loss().backward(create_graph=True)

    return step


def cache_by_identity():
    training = Training()

    def step():
        batch = torch.randn(16, 32)
        seen[id(batch)] = batch * 2, batch
        training.update(training.model(batch).mean())

    return step


def queue_without_end():
    training = Training()
    recent = collections.deque()

    def step():
        batch = torch.randn(16, 32)
        recent.append(batch)
        training.update(training.model(batch).mean())

    return step


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        result = tensor * tensor
        ctx.result = result
        return result

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.result.sqrt() * gradient


def context_of_function():
    training = Training()

    def step():
        training.update(Square.apply(training.model(torch.randn(16, 32))).mean())

    return step


@functools.lru_cache(maxsize=None)
def normalised(batch):
    return batch / batch.norm()


def cache_of_functools():
    training = Training()

    def step():
        training.update(training.model(normalised(torch.randn(16, 32))).mean())

    return step


class Bank(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(32, 64)
        self.register_buffer("bank", torch.zeros(0, 64))

    def forward(self, batch):
        output = self.project(batch)
        self.bank = torch.cat([self.bank, output.detach()])
        return output


def growing_buffer():
    return Bank()


def default_argument():
    training = Training()

    def remember(tensor, kept=[]):
        kept.append(tensor)

    def step():
        loss = training.loss()
        training.update(loss)
        remember(loss)

    return step


class Registry:
    outputs = []


def class_attribute():
    training = Training()

    def step():
        output = training.model(torch.randn(16, 32))
        training.update(output.mean())
        Registry.outputs.append(output.detach())

    return step


def exceptions():
    training = Training()
    failures = []

    def check(batch):
        if batch.shape[0] != 8:
            raise ValueError("not eight")

    def step():
        batch = torch.randn(16, 32)
        training.update(training.model(batch).mean())
        try:
            check(batch)
        except ValueError as error:
            failures.append(error)

    return step


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(32, 64)
        self.features = []

    def forward(self, batch):
        output = self.project(batch).relu()
        self.features.append(output)
        return output


def module_that_keeps_outputs():
    return Encoder()


def hook_in_each_step():
    training = Training()

    def step():
        batch = torch.randn(16, 32)
        training.model[0].register_forward_hook(lambda module, inputs, output: output * batch.mean())
        training.update(training.model(batch).mean())

    return step


class Sender:
    def __init__(self):
        self.pending = queue.Queue()


def queue_that_nobody_reads():
    training, sender = Training(), Sender()

    def step():
        batch = torch.randn(16, 32)
        sender.pending.put(batch)
        training.update(training.model(batch).mean())

    return step


def suspended_generator():
    training = Training()

    def batches():
        served = []
        while True:
            served.append(torch.randn(16, 32))
            yield served[-1]

    stream = batches()

    def step():
        training.update(training.model(next(stream)).mean())

    return step


class Slotted:
    __slots__ = ("predictions",)

    def __init__(self):
        self.predictions = {}


def dictionary_by_step():
    training, slotted = Training(), Slotted()

    def step():
        output = training.model(torch.randn(64, 32))
        training.update(output.mean())
        slotted.predictions[len(slotted.predictions)] = output.detach()

    return step


def loss_on_context():
    training = Training()
    losses = []

    def step():
        loss = Square.apply(training.model(torch.randn(16, 32))).mean()
        training.update(loss)
        losses.append(loss)

    return step


def retained_graph():
    training = Training()
    terms = []

    def step():
        terms.append(training.loss())
        training.optimizer.zero_grad()
        sum(terms).backward(retain_graph=True)

    return step
