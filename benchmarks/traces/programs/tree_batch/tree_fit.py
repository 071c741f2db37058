import torch
from torch import nn
from torch.utils.data import DataLoader

from trees import Trees, merge


def evaluate(net, loader):
    right = 0
    for nodes, labels in loader:
        right += (net(nodes).argmax(1) == labels).sum().item()
    return right


if __name__ == "__main__":
    print(evaluate(nn.Linear(4, 2), DataLoader(Trees(), batch_size=3, collate_fn=merge)))
