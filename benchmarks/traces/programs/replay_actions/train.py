"""Train on a random walk."""
import random

import torch

from buffer import ReplayBuffer
from learner import Learner


class Walk:
    """A point on a line; the goal is the right end."""

    def reset(self):
        self.position = 0.0
        return self._state()

    def _state(self):
        return torch.tensor([self.position, 1.0 - self.position])

    def step(self, action):
        self.position = min(1.0, max(0.0, self.position + (0.1 if action == 1 else -0.1)))
        end = self.position >= 1.0
        return self._state(), float(end), end


def main():
    random.seed(0)
    torch.manual_seed(0)
    walk, learner, buffer = Walk(), Learner(2, 2), ReplayBuffer(500, 2)
    state = walk.reset()
    for step in range(200):
        action = random.randrange(2) if random.random() < 0.3 else learner.act(state)
        following, reward, end = walk.step(action)
        buffer.add(state, action, reward, following, end)
        state = walk.reset() if end else following
        if step > 50:
            loss = learner.update(buffer.sample(32))
    print(loss)


if __name__ == "__main__":
    main()
