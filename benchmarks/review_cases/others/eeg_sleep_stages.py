import logging

import torch
import torch.nn as nn

log = logging.getLogger(__name__)


class SleepNet(nn.Module):
    def __init__(self, channels=2, stages=5):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(channels, 64, 49, stride=6, padding=24),
            nn.BatchNorm1d(64),
            nn.GELU(),
            nn.MaxPool1d(8),
            nn.Dropout(0.5),
            nn.Conv1d(64, 128, 9, padding=4),
            nn.BatchNorm1d(128),
            nn.GELU(),
            nn.AdaptiveAvgPool1d(1),
        )
        self.classify = nn.Linear(128, stages)

    def forward(self, epochs30s):
        return self.classify(self.encoder(epochs30s).squeeze(-1))


class Trainer:
    def __init__(self, model, loaders, device, max_epochs=80, patience=10):
        self.model = model.to(device)
        self.train_loader, self.val_loader = loaders
        self.device, self.max_epochs, self.patience = device, max_epochs, patience
        self.optim = torch.optim.Adam(model.parameters(), lr=5e-4, weight_decay=1e-3)
        self.ce = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.curve = []

    def _epoch(self):
        for signal, stage in self.train_loader:
            signal, stage = signal.to(self.device), stage.to(self.device)
            loss = self.ce(self.model(signal), stage)
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()
            self.curve.append(loss)  # expect: ESP301

    def _validate(self):
        self.model.eval()
        right = seen = 0
        with torch.inference_mode():
            for signal, stage in self.val_loader:
                guess = self.model(signal.to(self.device)).argmax(-1)
                right += (guess == stage.to(self.device)).sum()
                seen += len(stage)
        return float(right) / max(seen, 1)

    def fit(self):
        best, stale = 0.0, 0
        self.model.train()
        for epoch in range(self.max_epochs):
            self._epoch()  # expect: ESP103 @mode
            accuracy = self._validate()  # expect: ESP103 @mode
            log.info("epoch %d accuracy %.3f", epoch, accuracy)
            best, stale = (accuracy, 0) if accuracy > best else (best, stale + 1)
            if stale == self.patience:
                break
        return best
