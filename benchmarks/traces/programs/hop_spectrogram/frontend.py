import torch
from torch import nn


class Frontend(nn.Module):
    def __init__(self, n_fft=128, bins=40):
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("bank", torch.rand(bins, n_fft // 2 + 1))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.n_fft // 2, window=self.window, return_complex=True)
        return torch.log1p(self.bank @ spec.abs().pow(2))
