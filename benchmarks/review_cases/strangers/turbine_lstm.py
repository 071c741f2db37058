"""Remaining useful life of turbofan engines."""
import torch
import torch.nn as nn


class LifeLSTM(nn.Module):
    def __init__(self, sensors=14, hidden=100):
        super().__init__()
        self.rnn = nn.LSTM(sensors, hidden, num_layers=2, batch_first=True, dropout=0.2)
        self.life = nn.Linear(hidden, 1)

    def forward(self, window):
        out, _ = self.rnn(window)
        return self.life(out[:, -1]).squeeze(-1)


def score(pred, life):
    """The asymmetric score of the challenge: late is worse than early."""
    gap = pred - life
    return torch.where(gap < 0, torch.exp(-gap / 13), torch.exp(gap / 10)).sub(1).mean()


class Experiment:
    def __init__(self, loader, device="cuda"):
        self.loader, self.device = loader, device
        self.model = LifeLSTM().to(device)
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=1e-3)
        self.history = {"mse": [], "score": []}

    def run(self, epochs=80):
        self.model.train()
        for epoch in range(epochs):
            for window, life in self.loader:
                window, life = window.to(self.device), life.to(self.device)
                pred = self.model(window)
                mse = nn.functional.mse_loss(pred, life)
                self.optimizer.zero_grad()
                mse.backward()
                self.optimizer.step()
                self.history["mse"].append(mse)  # expect: ESP301
                self.history["score"].append(score(pred.detach(), life))
            if epoch % 10 == 0:
                recent = torch.stack(self.history["mse"][-len(self.loader) :]).mean()
                print(f"epoch {epoch}: {recent.item():.2f}")
        return self.history
