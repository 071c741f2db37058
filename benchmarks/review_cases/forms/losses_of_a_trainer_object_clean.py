import torch
from torch import nn

def make_loader():
    data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
    return torch.utils.data.DataLoader(data, batch_size=8, num_workers=2)
class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.history = []

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def fit(self):
        for x, y in self.loader:
            self.history.append(self.step(x, y).detach())


Trainer(nn.Linear(8, 3), make_loader()).fit()
