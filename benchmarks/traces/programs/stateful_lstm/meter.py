import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from stateful import Stateful

BATCH = 12


def run():
    x = torch.randn(50, 7, 3)
    loader = DataLoader(TensorDataset(x, x.sum((1, 2))), batch_size=BATCH)
    model = Stateful(3, 10, BATCH)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    state = model.start()
    for window, target in loader:
        prediction, state = model(window, state)
        loss = nn.functional.l1_loss(prediction, target)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    run()
