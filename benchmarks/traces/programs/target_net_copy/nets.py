from torch import nn


class Critic(nn.Module):
    def __init__(self, n_in, hidden=24):
        super().__init__()
        self.trunk = nn.Linear(n_in, hidden)
        self.value = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.value(self.trunk(x).relu())


class FrozenCritic(nn.Module):
    """A critic whose parameters follow those of another one slowly."""

    def __init__(self, n_in, hidden=24):
        super().__init__()
        self.critic = Critic(n_in, hidden)
        for p in self.parameters():
            p.requires_grad_(False)

    def forward(self, x):
        return self.critic(x)
