"""Trainer for street-scene segmentation with periodic validation."""
import os
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch.optim.lr_scheduler import PolynomialLR


def confusion(pred, target, n_class):
    keep = (target >= 0) & (target < n_class)
    idx = n_class * target[keep] + pred[keep]
    return torch.bincount(idx, minlength=n_class ** 2).reshape(n_class, n_class)


def mean_iou(hist):
    inter = hist.diag().float()
    union = hist.sum(0).float() + hist.sum(1).float() - inter
    valid = union > 0
    return (inter[valid] / union[valid]).mean().item()


class SegTrainer:
    def __init__(self, model, optimizer, train_loader, val_loader, out, max_iter,
                 interval_validate=4000, n_class=19, device="cuda"):
        self.model = model.to(device)
        self.optimizer = optimizer
        self.scheduler = PolynomialLR(optimizer, total_iters=max_iter, power=0.9)
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.out = out
        self.max_iter = max_iter
        self.interval_validate = interval_validate
        self.n_class = n_class
        self.device = device
        self.iteration = 0
        self.epoch = 0
        self.best_mean_iu = 0.0
        os.makedirs(out, exist_ok=True)

    def _loss(self, score, label):
        return F.cross_entropy(score, label, ignore_index=255)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hist = torch.zeros(self.n_class, self.n_class, dtype=torch.long)
        losses = []
        for image, label in self.val_loader:
            image, label = image.to(self.device), label.to(self.device)
            score = self.model(image)
            losses.append(self._loss(score, label).item())
            pred = score.argmax(1)
            hist += confusion(pred.cpu().flatten(), label.cpu().flatten(), self.n_class)
        mean_iu = mean_iou(hist)
        print(f"[{self.iteration}] val loss {np.mean(losses):.4f} mIoU {mean_iu:.4f}")
        if mean_iu > self.best_mean_iu:
            self.best_mean_iu = mean_iu
            torch.save(
                {"model": self.model.state_dict(), "optim": self.optimizer.state_dict(),
                 "iteration": self.iteration, "best_mean_iu": mean_iu},
                os.path.join(self.out, "model_best.pth"),
            )
        return mean_iu

    def train_epoch(self):
        self.model.train()
        for image, label in self.train_loader:
            if self.iteration > 0 and self.iteration % self.interval_validate == 0:
                self.validate()
            image, label = image.to(self.device), label.to(self.device)
            self.optimizer.zero_grad(set_to_none=True)
            score = self.model(image)
            loss = self._loss(score, label)
            value = loss.item()
            if math.isnan(value):
                raise ValueError("loss is nan while training")
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.iteration += 1
            if self.iteration >= self.max_iter:
                break

    def train(self):
        max_epoch = math.ceil(self.max_iter / len(self.train_loader))
        for epoch in range(max_epoch):
            self.epoch = epoch
            self.train_epoch()
            if self.iteration >= self.max_iter:
                break
        self.validate()
