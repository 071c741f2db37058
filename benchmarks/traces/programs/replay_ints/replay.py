import random
from collections import deque, namedtuple

import torch

Transition = namedtuple("Transition", "state action reward next_state done")


class Replay:
    def __init__(self, capacity):
        self.items = deque(maxlen=capacity)

    def push(self, *values):
        self.items.append(Transition(*values))

    def draw(self, n):
        batch = Transition(*zip(*random.sample(self.items, n)))
        state = torch.stack(batch.state)
        action = torch.stack(batch.action)
        reward = torch.tensor(batch.reward)
        return state, action, reward, torch.stack(batch.next_state), torch.tensor(batch.done)

    def __len__(self):
        return len(self.items)
