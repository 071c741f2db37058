import torch


class Task:
    """The loop; tasks say what a loss is."""

    def __init__(self, model, lr=1e-3, device="cuda"):
        self.model = model.to(device)
        self.device = device
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    def loss(self, batch):
        raise NotImplementedError

    def to_device(self, batch):
        return tuple(x.to(self.device, non_blocking=True) for x in batch)

    def epoch(self, loader):
        self.model.train()
        total = torch.zeros((), device=self.device)
        for batch in loader:
            self.optimizer.zero_grad()
            loss = self.loss(self.to_device(batch))
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        return total.item() / max(len(loader), 1)

    @torch.no_grad()
    def check(self, loader):
        self.model.eval()
        return sum(self.loss(self.to_device(batch)) for batch in loader).item() / max(len(loader), 1)
