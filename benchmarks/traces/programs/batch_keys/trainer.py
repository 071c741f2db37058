"""Training loop with evaluation."""
import torch


class Trainer:
    """Runs epochs; moves batches to the device of the model."""

    def __init__(self, model, optimizer, criterion, device="cpu"):
        self.model = model.to(device)
        self.optimizer = optimizer
        self.criterion = criterion
        self.device = device
        self.history = []

    def _to_device(self, batch):
        return {name: part.to(self.device) for name, part in batch.items()}

    def _loss(self, batch):
        logits = self.model(batch["ids"], batch["mask"])
        return self.criterion(logits, batch["labels"])

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            self.model.train()
            for batch in loader:
                self.optimizer.zero_grad()
                loss = self._loss(self._to_device(batch))
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
            self.history.append(loss.item())
