"""The optimizer runs inside the backward pass, so that no gradient outlives its step."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def fuse(model, lr):
    optimizers = {p: torch.optim.Adafactor([p], lr=lr) for p in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    return optimizers


class CharLM(nn.Module):
    def __init__(self, chars=256, dim=192):
        super().__init__()
        self.embed = nn.Embedding(chars, dim)
        self.rnn = nn.GRU(dim, dim, 2, batch_first=True)
        self.out = nn.Linear(dim, chars)

    def forward(self, text):
        return self.out(self.rnn(self.embed(text))[0])


def train(text, steps=1000, batch=32, length=128, lr=1e-3):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = CharLM().to(device).train()
    fuse(model, lr)
    text = text.to(device)
    mean = torch.zeros((), device=device)
    for step in range(1, steps + 1):
        starts = torch.randint(0, len(text) - length - 1, (batch,), device=device)
        index = starts.unsqueeze(1) + torch.arange(length + 1, device=device)
        chunk = text[index]
        loss = F.cross_entropy(model(chunk[:, :-1]).flatten(0, 1), chunk[:, 1:].flatten())
        loss.backward()
        mean += loss.detach()
        if step % 100 == 0:
            print(step, (mean / 100).item())
            mean.zero_()
    return model


if __name__ == "__main__":
    train(torch.randint(0, 256, (5000,)), steps=3, batch=2, length=16)
