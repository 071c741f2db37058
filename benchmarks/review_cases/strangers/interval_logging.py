"""Sound event detection; numbers stay on the device until they are shown."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Mean:
    def __init__(self, device):
        self.total, self.count = torch.zeros((), device=device), 0

    def add(self, value):
        self.total += value.detach()
        self.count += 1

    def take(self):
        mean = (self.total / max(self.count, 1)).item()
        self.total.zero_()
        self.count = 0
        return mean


class EventNet(nn.Module):
    def __init__(self, mels=64, events=10):
        super().__init__()
        self.conv = nn.Conv1d(mels, 96, 5, padding=2)
        self.rnn = nn.GRU(96, 96, bidirectional=True, batch_first=True)
        self.out = nn.Linear(192, events)

    def forward(self, mel):
        return self.out(self.rnn(F.relu(self.conv(mel)).transpose(1, 2))[0])


def train(net, loader, epochs=1, log_every=50, device="cuda"):
    net.to(device).train()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    strong, history, step = Mean(device), [], 0
    epoch_losses = []
    for epoch in range(epochs):
        best = None
        for mel, events in loader:
            mel, events = mel.to(device, non_blocking=True), events.to(device, non_blocking=True)
            loss = F.binary_cross_entropy_with_logits(net(mel), events)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            strong.add(loss)
            epoch_losses.append(loss.detach())
            best = loss.detach() if best is None else torch.minimum(best, loss.detach())
            step += 1
            if step % log_every == 0:
                history.append(strong.take())
                print(f"step {step}: {history[-1]:.4f}")
        print(f"epoch {epoch}: mean {torch.stack(epoch_losses).mean().item():.4f}, best {best.item():.4f}")
        epoch_losses.clear()
    return history


if __name__ == "__main__":
    batch = torch.randn(2, 64, 20), torch.randint(0, 2, (2, 20, 10)).float()
    assert len(train(EventNet(), [batch] * 6, 2, 4, "cpu")) == 3
