"""Train the event model."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from batching import collate_events
from model import EventModel, count_parameters


class Events(Dataset):
    """Random event sequences; the target is their mean."""

    def __init__(self, count, size):
        lengths = torch.randint(4, 20, (count,)).tolist()
        self.sequences = [torch.randn(length, size) for length in lengths]

    def __len__(self):
        return len(self.sequences)

    def __getitem__(self, index):
        events = self.sequences[index]
        return events, events.mean()


def main():
    torch.manual_seed(0)
    loader = DataLoader(Events(60, 10), batch_size=12, collate_fn=collate_events)
    model = EventModel(10)
    print("parameters", count_parameters(model))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(2):
        for events, mask, target in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(events, mask), target)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
