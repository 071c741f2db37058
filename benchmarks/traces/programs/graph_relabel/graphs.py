import torch


def ring_graph(n):
    a = torch.arange(n)
    return torch.stack([torch.cat([a, (a + 1) % n]), torch.cat([(a + 1) % n, a])])


def subgraph(edges, nodes):
    keep = torch.isin(edges[0], nodes) & torch.isin(edges[1], nodes)
    return edges[:, keep]
