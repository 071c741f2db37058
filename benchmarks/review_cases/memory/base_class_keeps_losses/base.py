import torch


class BaseTrainer:
    def __init__(self, model, optimizer, device):
        self.model, self.optimizer, self.device = model.to(device), optimizer, device
        self.losses = []

    def compute_loss(self, batch):
        raise NotImplementedError

    def train_epoch(self, loader):
        self.model.train()
        for batch in loader:
            loss = self.compute_loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss)  # expect: ESP301
        return torch.stack(self.losses[-len(loader) :]).mean().item()
