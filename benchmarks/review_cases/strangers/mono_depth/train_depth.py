import torch
import torch.nn as nn

from metrics import DepthReport


def silog(pred, depth, lam=0.85):
    valid = depth > 1e-3
    d = torch.log(pred[valid].clamp(min=1e-3)) - torch.log(depth[valid])
    return (d.square().mean() - lam * d.mean().square()).clamp(min=1e-6).sqrt()


class DepthTrainer:
    def __init__(self, network: nn.Module, train_loader, val_loader, device="cuda", every=500):
        self.network = network.to(device).train()
        self.train_loader = train_loader
        self.report = DepthReport(val_loader, device)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-4)
        self.device, self.every, self.step = device, every, 0

    def fit(self, epochs):
        for _ in range(epochs):
            for image, depth in self.train_loader:
                pred = self.network(image.to(self.device))
                loss = silog(pred, depth.to(self.device))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.step += 1
                if self.step % self.every == 0:
                    absrel, mse, d1 = self.report(self.network)  # expect: ESP103 @mode
                    print(f"{self.step} absrel {absrel:.3f} mse {mse:.3f} d1 {d1:.3f}")
