import torch
import torch.nn as nn
import torch.nn.functional as F

from encoder import Encoder


class SpeakerID(nn.Module):
    def __init__(self, speakers):
        super().__init__()
        self.encoder = Encoder()
        self.bn = nn.BatchNorm1d(192)
        self.head = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, speakers))  # expect: ESP205

    def forward(self, mels):
        return self.head(self.bn(self.encoder(mels)))


def train(loader, speakers, device, epochs=10):
    model = SpeakerID(speakers).to(device)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(epochs):
        model.train()
        for mels, who in loader:
            opt.zero_grad()
            loss = F.cross_entropy(model(mels.to(device)), who.to(device))
            loss.backward()
            opt.step()
    return model
