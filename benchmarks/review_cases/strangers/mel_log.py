"""Log-mel front end as a layer, so that it runs on the GPU with the rest."""
import torch
import torch.nn as nn


class LogMel(nn.Module):
    def __init__(self, filters, n_fft=400, hop=160):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("filters", filters)
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, wave):
        spectrum = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        power = spectrum.abs().square()
        mel = self.filters @ power
        return torch.log(mel)  # expect: ESP213


class SoundTagger(nn.Module):
    def __init__(self, filters, tags=50):
        super().__init__()
        self.front = LogMel(filters)
        self.norm = nn.BatchNorm2d(1)
        self.conv = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()
        )
        self.out = nn.Linear(64, tags)

    def forward(self, wave):
        x = self.norm(self.front(wave).unsqueeze(1))
        return self.out(self.conv(x).mean(dim=(2, 3)))


def loss_fn(model, wave, tags):
    return nn.functional.binary_cross_entropy_with_logits(model(wave), tags)
