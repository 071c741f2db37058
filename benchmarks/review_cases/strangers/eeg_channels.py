"""Sleep stages from EEG epochs."""
import torch
import torch.nn as nn


class SleepStager(nn.Module):
    def __init__(self, electrodes=8, hidden=96, stages=5):
        super().__init__()
        self.filters = nn.Conv1d(electrodes, 64, 50, stride=6, padding=24)
        self.norm = nn.BatchNorm1d(64)
        self.rnn = nn.LSTM(64, hidden, batch_first=True, bidirectional=True)
        self.stage = nn.Linear(2 * hidden, stages)

    def forward(self, epoch):
        """epoch: (batch, electrodes, samples)."""
        maps = torch.relu(self.norm(self.filters(epoch)))
        n, c, t = maps.shape
        sequence = maps.view(n, t, c)  # expect: ESP209
        states, _ = self.rnn(sequence)
        return self.stage(states.mean(dim=1))


def class_weights(stages, count=5):
    frequency = torch.bincount(stages, minlength=count).float()
    return frequency.sum() / (count * frequency.clamp(min=1))


def fit(loader, stages, epochs=25, device="cuda"):
    net = SleepStager().to(device)
    criterion = nn.CrossEntropyLoss(weight=class_weights(stages).to(device))
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-4)
    for epoch in range(epochs):
        net.train()
        for eeg, stage in loader:
            optimizer.zero_grad()
            loss = criterion(net(eeg.to(device)), stage.to(device))
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
    return net
