import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from loop import Loop, repeat


def build(width):
    return nn.Sequential(nn.Linear(12, width), nn.Tanh(), nn.Linear(width, 3))


def main():
    model = build(48)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()

    def one_batch(batch):
        flowers, kinds = batch
        loss = criterion(model(flowers), kinds)
        loss.backward()  # expect: ESP101
        optimizer.step()

    flowers = TensorDataset(torch.randn(150, 12), torch.randint(0, 3, (150,)))
    repeat(one_batch, DataLoader(flowers, batch_size=15, shuffle=True), Loop(400))
    torch.save(model.state_dict(), "flowers.pt")


if __name__ == "__main__":
    main()
