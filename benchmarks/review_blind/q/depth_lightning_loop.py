"""Minimal training loop used for monocular depth models."""
from collections import OrderedDict

import torch
from torch.utils.data import DataLoader


def average_key(batch_list, key):
    values = [item[key] for item in batch_list]
    return sum(values) / len(values)


def to_device(batch, device):
    return {k: v.to(device, non_blocking=True) if torch.is_tensor(v) else v
            for k, v in batch.items()}


class SmoothnessLoss(torch.nn.Module):
    def forward(self, inv_depth, image):
        dx = (inv_depth[..., :, 1:] - inv_depth[..., :, :-1]).abs()
        dy = (inv_depth[..., 1:, :] - inv_depth[..., :-1, :]).abs()
        wx = torch.exp(-(image[..., :, 1:] - image[..., :, :-1]).abs().mean(1, keepdim=True))
        wy = torch.exp(-(image[..., 1:, :] - image[..., :-1, :]).abs().mean(1, keepdim=True))
        return (dx * wx).mean() + (dy * wy).mean()


class DepthModule(torch.nn.Module):
    def __init__(self, net, smooth_weight=1e-3):
        super().__init__()
        self.net = net
        self.smooth = SmoothnessLoss()
        self.smooth_weight = smooth_weight

    def training_step(self, batch):
        inv_depth = self.net(batch["rgb"])
        mask = batch["inv_depth"] > 0
        supervised = (inv_depth[mask] - batch["inv_depth"][mask]).abs().mean()
        smooth = self.smooth(inv_depth, batch["rgb"])
        loss = supervised + self.smooth_weight * smooth
        log_ratio = torch.log(inv_depth[mask].clamp(min=1e-6)) - torch.log(batch["inv_depth"][mask])
        silog = (log_ratio.pow(2).mean() - 0.85 * log_ratio.mean().pow(2)).clamp(min=1e-8).sqrt()
        return {"loss": loss, "supervised": supervised, "smooth": smooth, "silog": silog}

    def training_epoch_end(self, outputs):
        metrics = OrderedDict()
        for key in ("loss", "supervised", "smooth", "silog"):
            metrics[f"avg_train_{key}"] = float(average_key(outputs, key))
        return metrics

    @torch.no_grad()
    def validation_step(self, batch):
        inv_depth = self.net(batch["rgb"]).clamp(min=1e-6)
        depth, gt = 1.0 / inv_depth, batch["depth"]
        mask = gt > 0
        return {"abs_rel": ((depth[mask] - gt[mask]).abs() / gt[mask]).mean()}


class Runner:
    def __init__(self, module, optimizer, epochs, device="cuda"):
        self.module = module.to(device)
        self.optimizer = optimizer
        self.epochs = epochs
        self.device = device

    def train(self, loader: DataLoader):
        self.module.train()
        outputs = []
        for batch in loader:
            batch = to_device(batch, self.device)
            self.optimizer.zero_grad()
            output = self.module.training_step(batch)
            output["loss"].backward()
            self.optimizer.step()
            outputs.append(output)
        return self.module.training_epoch_end(outputs)

    def validate(self, loader: DataLoader):
        self.module.eval()
        outputs = [self.module.validation_step(to_device(b, self.device)) for b in loader]
        return float(average_key(outputs, "abs_rel"))

    def fit(self, train_loader, val_loader):
        for epoch in range(self.epochs):
            metrics = self.train(train_loader)
            metrics["val_abs_rel"] = self.validate(val_loader)
            print(epoch, dict(metrics))
