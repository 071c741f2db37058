import torch
from torch import nn

from nets import Critic, FrozenCritic


class Learner:
    def __init__(self, n_state=4, n_action=2):
        self.online = Critic(n_state + n_action)
        self.target = FrozenCritic(n_state + n_action)
        self.sync()
        self.opt = torch.optim.Adam(self.online.parameters())

    def sync(self):
        self.target.load_state_dict(self.online.state_dict())

    def step(self, s, a, r, s2, a2, gamma=0.99):
        goal = r + gamma * self.target(torch.cat([s2, a2], 1)).squeeze(1)
        loss = nn.functional.mse_loss(self.online(torch.cat([s, a], 1)).squeeze(1), goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


if __name__ == "__main__":
    learner = Learner()
    learner.step(torch.randn(8, 4), torch.randn(8, 2), torch.randn(8), torch.randn(8, 4), torch.randn(8, 2))
