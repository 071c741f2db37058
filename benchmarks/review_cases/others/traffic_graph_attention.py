import torch
import torch.nn as nn
import torch.nn.functional as F


class RoadAttention(nn.Module):
    """Attention of each sensor to its neighbours, on a dense adjacency of (sensors, sensors)."""

    def __init__(self, d_in, d_out, slope=0.2):
        super().__init__()
        self.w = nn.Linear(d_in, d_out, bias=False)
        self.src, self.dst = nn.Linear(d_out, 1, bias=False), nn.Linear(d_out, 1, bias=False)
        self.slope = slope

    def forward(self, x, adj):
        h = self.w(x)
        e = F.leaky_relu(self.src(h) + self.dst(h).transpose(1, 2), self.slope)
        e = e.masked_fill(adj == 0, -1e9)
        alpha = F.softmax(e, dim=0)  # expect: ESP202
        return torch.bmm(alpha, h)


class TrafficNet(nn.Module):
    def __init__(self, history=12, horizon=3, width=64):
        super().__init__()
        self.inp = RoadAttention(history, width)
        self.mid = RoadAttention(width, width)
        self.out = nn.Linear(width, horizon)

    @torch.compile
    def forward(self, speeds, adj):
        x = F.elu(self.inp(speeds, adj))
        x = F.elu(self.mid(x, adj))
        if x.abs().max().item() > 1e4:  # expect: ESP501
            x = x.clamp(-1e4, 1e4)
        return self.out(x)


def fit(net, loader, adj, device, epochs=100):
    net.to(device)
    adj = adj.to(device)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(epochs):
        net.train()
        for speeds, future in loader:
            loss = F.l1_loss(net(speeds.to(device), adj), future.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
    return net
