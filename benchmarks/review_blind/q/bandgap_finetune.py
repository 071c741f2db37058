"""Fine-tune a composition model on band gaps with early stopping."""
import json
import logging
from pathlib import Path

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, random_split

logger = logging.getLogger(__name__)


class Standardizer:
    def __init__(self, values):
        self.mean = values.mean()
        self.std = values.std().clamp(min=1e-6)

    def norm(self, x):
        return (x - self.mean) / self.std

    def denorm(self, x):
        return x * self.std + self.mean


class RobustL1(nn.Module):
    """L1 with a learned per-sample scale."""

    def forward(self, mean, log_std, target):
        return (2.0 ** 0.5 * (mean - target).abs() * torch.exp(-log_std) + log_std).mean()


def evaluate(model, loader, criterion, scaler, device):
    model.eval()
    total, mae, count = 0.0, 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            mean, log_std = model(x).unbind(-1)
            total += criterion(mean, log_std, scaler.norm(y)).item() * y.numel()
            mae += (scaler.denorm(mean) - y).abs().sum().item()
            count += y.numel()
    return total / count, mae / count


def finetune(model, dataset, out_dir, epochs=200, patience=20, batch_size=128,
             lr=3e-4, val_fraction=0.1, seed=0, device="cuda"):
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    n_val = int(len(dataset) * val_fraction)
    split = torch.Generator().manual_seed(seed)
    train_set, val_set = random_split(dataset, [len(dataset) - n_val, n_val], generator=split)
    targets = torch.stack([y for _, y in train_set])
    scaler = Standardizer(targets.to(device))
    train_loader = DataLoader(train_set, batch_size=batch_size, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=batch_size)

    model = model.to(device)
    criterion = RobustL1()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-6)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=8)

    best_loss, best_state, stale = float("inf"), None, 0
    history = []
    for epoch in range(epochs):
        model.train()
        for x, y in train_loader:
            x, y = x.to(device), y.to(device)
            mean, log_std = model(x).unbind(-1)
            loss = criterion(mean, log_std, scaler.norm(y))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        val_loss, val_mae = evaluate(model, val_loader, criterion, scaler, device)
        scheduler.step(val_loss)
        history.append({"epoch": epoch, "val_loss": val_loss, "val_mae": val_mae})
        if val_loss < best_loss:
            best_loss, stale = val_loss, 0
            best_state = model.state_dict().copy()
        else:
            stale += 1
            if stale >= patience:
                logger.info("stop at epoch %d", epoch)
                break

    if best_state is not None:
        model.load_state_dict(best_state)
    torch.save(best_state, out_dir / "best.pt")
    (out_dir / "history.json").write_text(json.dumps(history))
    return model, best_loss
