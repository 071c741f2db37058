"""Targets whose memory is known, or is hard to come by."""

import torch
from torch import nn
from torch.nn import functional


def perceptron():
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 32))


def deep():
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.Tanh())))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, images):
        hidden = self.first(images)
        return (hidden + self.norm(self.second(hidden)).relu()).mean()


def residual():
    return Residual()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(16, 32, batch_first=True)
        self.out = nn.Linear(32, 4)

    def forward(self, series):
        return self.out(self.cell(series)[0][:, -1])


def recurrent():
    return Recurrent()


class Gathering(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(32, 64)

    def forward(self, batch):
        scores = self.project(batch)
        return scores.gather(1, scores.topk(4, -1).indices).sum()


def gathering():
    return Gathering()


class Output:
    def __init__(self, loss, logits):
        self.loss = loss
        self.logits = logits


class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(32, 8)

    def forward(self, batch):
        logits = self.project(batch)
        return Output(functional.cross_entropy(logits, logits.argmax(-1)), logits)


def with_loss():
    return WithLoss()


def step_that_reads_numbers():
    model = nn.Linear(64, 64)
    optimizer = torch.optim.Adam(model.parameters())
    best = [1e9]

    def step():
        loss = model(torch.randn(32, 64)).square().mean()
        if torch.isnan(loss):
            raise RuntimeError("not a number")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        best[0] = min(best[0], loss.item())

    return step


def scaled_step():
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu")

    def step():
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(torch.randn(32, 64)).float().square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def huge():
    return nn.Sequential(*(nn.Linear(1 << 18, 1 << 18) for _ in range(2)))


def half_of_it(batch):
    return batch[batch > 0].sum()


def out_of_nothing(batch):
    return torch.empty(1 << 59).sum() + batch.sum()


def out_of_cuda(batch):
    raise torch.cuda.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB"
    )


def out_of_what_the_driver_has(batch):
    raise RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported")


class Greedy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        return tensor.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient + torch.empty(1 << 59).sum()


class OutOfNothingInBackward(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(16, 4)

    def forward(self, batch):
        return Greedy.apply(self.project(batch)).sum()


def out_of_nothing_in_backward():
    return OutOfNothingInBackward()


def out_of_nothing_later():
    kept = []

    def step():
        kept.append(torch.ones(1 << 14))
        if len(kept) > 7:
            torch.empty(1 << 59)

    return step


def without_gradients(batch):
    return (batch > 0).float()


def compiled():
    return torch.compile(perceptron(), backend="eager")
