import torch

from a2c import Worker


class Sparse:
    """Reward only at the goal, which a short rollout never reaches."""

    def reset(self):
        self.at = 0
        return torch.randn(4)

    def step(self, action):
        self.at += int(action == 2)
        return torch.randn(4), 1.0 if self.at > 100 else 0.0


if __name__ == "__main__":
    worker = Worker(Sparse())
    for _ in range(4):
        worker.update()
