import torch
import torch.nn as nn

from skill import climatology_skill


class ConvGRUCell(nn.Module):
    def __init__(self, c_in, c):
        super().__init__()
        self.gates = nn.Conv2d(c_in + c, 2 * c, 3, padding=1)
        self.new = nn.Conv2d(c_in + c, c, 3, padding=1)

    def forward(self, x, h):
        r, z = self.gates(torch.cat([x, h], 1)).sigmoid().chunk(2, 1)
        n = self.new(torch.cat([x, r * h], 1)).tanh()
        return (1 - z) * n + z * h


class SeaSurface(nn.Module):
    def __init__(self, c=48, ahead=5):
        super().__init__()
        self.c, self.ahead = c, ahead
        self.enc, self.dec = ConvGRUCell(1, c), ConvGRUCell(1, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, past):
        b, t, height, width = past.shape
        h = past.new_zeros(b, self.c, height, width)
        for i in range(t):
            h = self.enc(past[:, i : i + 1], h)
        frame, frames = past[:, -1:], []
        for _ in range(self.ahead):
            h = self.dec(frame, h)
            frame = frame + self.out(h)
            frames.append(frame)
        return torch.cat(frames, 1)


def main(train_batches, val_batches, climatology, epochs=60):
    device = torch.device("cuda")
    net = SeaSurface().to(device)
    climatology = climatology.to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    best = float("-inf")
    for epoch in range(epochs):
        net.train()
        for past, future, _ in train_batches:
            past, future = past.to(device, non_blocking=True), future.to(device, non_blocking=True)
            opt.zero_grad(set_to_none=True)
            loss = nn.functional.mse_loss(net(past), future)
            loss.backward()
            opt.step()
        skill = climatology_skill(net, val_batches, climatology, device)
        print(f"{epoch:02d} {skill:.3f}")
        if skill > best:
            best = skill
            torch.save(net.state_dict(), "sea.pt")
