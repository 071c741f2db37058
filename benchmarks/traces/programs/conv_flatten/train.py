import torch
from torch.utils.data import DataLoader, TensorDataset

from model import SmallCNN


def main():
    data = TensorDataset(torch.randn(64, 3, 64, 64), torch.randint(0, 10, (64,)))
    loader = DataLoader(data, batch_size=16)
    model = SmallCNN()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
