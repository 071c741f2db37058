import torch
from torch import nn

from graphs import ring_graph, subgraph


class MeanConv(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.own, self.other = nn.Linear(n_in, n_out), nn.Linear(n_in, n_out)

    def forward(self, x, edges):
        src, dst = edges
        messages = self.other(x)[src]
        total = torch.zeros(x.shape[0], messages.shape[1]).index_add(0, dst, messages)
        degree = torch.bincount(dst, minlength=x.shape[0]).clamp(min=1)
        return torch.relu(self.own(x) + total / degree.unsqueeze(1))


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([MeanConv(6, 8), MeanConv(8, 2)])

    def forward(self, x, edges):
        for conv in self.convs:
            x = conv(x, edges)
        return x


def main():
    edges, features = ring_graph(30), torch.randn(30, 6)
    model = GNN()
    for start in range(0, 30, 10):
        nodes = torch.arange(start, start + 10)
        out = model(features[nodes], subgraph(edges, nodes))
        print(start, out.sum().item())


if __name__ == "__main__":
    main()
