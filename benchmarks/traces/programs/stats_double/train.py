"""Train the regression network on standardized readings."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from preprocessing import Standardizer, synthetic_readings
from regressor import Regressor


class Readings(Dataset):
    """Standardized readings with targets."""

    def __init__(self, readings, targets, standardizer):
        self.readings = standardizer.transform(readings)
        self.targets = targets

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        return torch.from_numpy(self.readings[index]), torch.tensor(self.targets[index])


def main():
    torch.manual_seed(0)
    readings, targets = synthetic_readings(512, 6)
    standardizer = Standardizer().fit(readings[:400])
    loader = DataLoader(Readings(readings[:400], targets[:400], standardizer), batch_size=50, shuffle=True)
    model = Regressor(6)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    criterion = nn.HuberLoss()
    for epoch in range(2):
        for batch, target in loader:
            optimizer.zero_grad()
            loss = criterion(model(batch), target)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
