"""Train on batches, but call the network one window at a time."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader


class Wav2Emo(nn.Module):
    def __init__(self, emotions=7):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 64, 40, stride=20), nn.ReLU(), nn.Conv1d(64, 128, 8, stride=4), nn.ReLU())
        self.fc = nn.Linear(128, emotions)

    def forward(self, wav):
        return self.fc(self.conv(wav).mean(-1))


class Learner:
    def __init__(self, dataset, device="cuda"):
        self.net = Wav2Emo().to(device)
        self.loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=4)
        self.opt, self.loss_fn, self.device = torch.optim.Adam(self.net.parameters()), nn.CrossEntropyLoss(), device

    def epoch(self):
        self.net.train()
        for waves, labels in self.loader:
            waves, labels = waves.to(self.device), labels.to(self.device)
            outputs = []
            for wave in waves:
                outputs.append(self.net(wave.unsqueeze(0)))  # expect: ESP408
            loss = self.loss_fn(torch.cat(outputs), labels)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
