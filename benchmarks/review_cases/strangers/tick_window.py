"""Features of the order book for a stream of ticks."""
import numpy as np
import torch


class RollingWindow:
    """The last `size` ticks in a ring that is shifted in place."""

    def __init__(self, size=100, width=40):
        self.buffer = np.zeros((size, width), dtype=np.float32)

    def push(self, tick):
        self.buffer[:-1] = self.buffer[1:]
        self.buffer[-1] = tick


def build_examples(ticks, mids, horizon=10, size=100):
    """Turn a day of ticks into windows and the move of the price after each."""
    window = np.zeros((size, ticks.shape[1]), dtype=np.float32)
    examples, moves = [], []
    for t in range(len(ticks) - horizon):
        window[:-1] = window[1:].copy()
        window[-1] = ticks[t]
        if t >= size:
            examples.append(torch.from_numpy(window))  # expect: ESP207
            moves.append(np.sign(mids[t + horizon] - mids[t]))
    return torch.stack(examples), torch.tensor(np.array(moves, dtype=np.int64)) + 1


def normalise(day):
    mean, std = day.mean(0, keepdims=True), day.std(0, keepdims=True)
    return (day - mean) / (std + 1e-8)


if __name__ == "__main__":
    day = np.random.rand(500, 40)
    x, y = build_examples(normalise(day), day[:, 0])
    print(x.shape, y.shape)
