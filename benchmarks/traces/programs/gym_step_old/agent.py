"""Policy gradient agent."""
import torch
from torch import nn


class Policy(nn.Module):
    """Two layers and a categorical head."""

    def __init__(self, observations, actions, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(observations, width), nn.Tanh(), nn.Linear(width, actions))

    def act(self, observation):
        logits = self.net(torch.as_tensor(observation))
        distribution = torch.distributions.Categorical(logits=logits)
        action = distribution.sample()
        return action.item(), distribution.log_prob(action)


def discounted(rewards, gamma):
    """Return the discounted return of every step."""
    total, returns = 0.0, []
    for reward in reversed(rewards):
        total = reward + gamma * total
        returns.append(total)
    return torch.tensor(returns[::-1])
