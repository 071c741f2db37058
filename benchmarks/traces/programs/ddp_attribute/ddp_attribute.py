import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Linear(4, 2)

    def forward(self, obs):
        return self.actor(obs)

    def act(self, obs):
        return self.actor(obs).argmax(-1)


def setup():
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29613")
    dist.init_process_group("gloo", rank=0, world_size=1)


def rollout(agent, n=3):
    obs = torch.randn(1, 4)
    for _ in range(n):
        action = agent.act(obs)
        obs = obs + action


setup()
rollout(DistributedDataParallel(Agent()))
