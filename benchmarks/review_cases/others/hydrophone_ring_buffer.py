"""Cuts whale calls out of a hydrophone stream and labels them."""

import queue

import numpy as np
import torch
import torch.nn as nn


class RingCutter:
    """Hands out the last second of sound every 100 ms."""

    def __init__(self, rate=16_000):
        self.window = np.zeros(rate, dtype=np.float32)
        self.hop = rate // 10
        self.pending = []

    def push(self, samples: np.ndarray) -> None:
        self.window[: -self.hop] = self.window[self.hop :]
        self.window[-self.hop :] = samples
        if self.window.std() > 0.01:
            self.pending.append(torch.from_numpy(self.window))  # expect: ESP207

    def drain(self) -> torch.Tensor:
        batch, self.pending = torch.stack(self.pending), []
        return batch


class CallClassifier(nn.Module):
    def __init__(self, species=7):
        super().__init__()
        self.register_buffer("hann", torch.hann_window(512))
        self.conv = nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4)
        )
        self.out = nn.Linear(512, species)

    def forward(self, sound):
        spec = torch.stft(sound, 512, 256, window=self.hann, return_complex=True).abs()
        return self.out(self.conv(torch.log1p(spec).unsqueeze(1)).flatten(1))


@torch.inference_mode()
def listen(blocks: "queue.Queue[np.ndarray | None]", classifier: CallClassifier, least=32):
    classifier.eval()
    cutter = RingCutter()
    while (block := blocks.get()) is not None:
        cutter.push(block)
        if len(cutter.pending) >= least:
            yield classifier(cutter.drain()).argmax(1).tolist()
