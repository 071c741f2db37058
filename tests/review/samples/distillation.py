"""A student that learns from a frozen teacher; the loss sums several terms and several views."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Distiller:
    def __init__(self, teacher, student, data, device, temperature=4.0):
        self.teacher, self.student, self.device = teacher.to(device).eval(), student.to(device), device
        self.teacher.requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=1e-3)
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=64, sampler=self.sampler, num_workers=4, pin_memory=True)
        self.temperature = temperature
        self.history = []

    def loss(self, views, labels):
        total = torch.zeros((), device=self.device)
        for view in views:
            scores = self.student(view)
            with torch.no_grad():
                target = F.softmax(self.teacher(view) / self.temperature, dim=-1)
            soft = F.kl_div(F.log_softmax(scores / self.temperature, dim=-1), target, reduction="batchmean")
            total = total + F.cross_entropy(scores, labels) + self.temperature**2 * soft
        return total / len(views)

    def train_one_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        self.student.train()
        losses = []
        for views, labels in self.loader:
            loss = self.loss([view.to(self.device, non_blocking=True) for view in views], labels.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses).mean().item()

    @torch.no_grad()
    def accuracy(self, loader):
        self.student.eval()
        right = torch.zeros((), device=self.device)
        for x, y in loader:
            right += (self.student(x.to(self.device)).argmax(-1) == y.to(self.device)).sum()
        return right.item() / len(loader.dataset)

    def fit(self, held_out, epochs):
        for epoch in range(epochs):
            self.history.append((self.train_one_epoch(epoch), self.accuracy(held_out)))
        return self.history


def load(model: nn.Module, path: str) -> nn.Module:
    missing, unexpected = model.load_state_dict(torch.load(path, weights_only=True), strict=False)
    if unexpected or missing:
        raise ValueError(f"{missing} {unexpected}")
    return model
