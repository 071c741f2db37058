"""Spectral features of audio clips."""
import torch


class SpectralFrames:
    """Log magnitudes of overlapping windows: (frames, bands)."""

    def __init__(self, window=64, hop=32):
        self.window = window
        self.hop = hop
        self.taper = torch.hann_window(window)

    @property
    def bands(self):
        return self.window // 2 + 1

    def __call__(self, wave):
        frames = wave.unfold(0, self.window, self.hop) * self.taper
        return torch.log1p(torch.fft.rfft(frames).abs())
