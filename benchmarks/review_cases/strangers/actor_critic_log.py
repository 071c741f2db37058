"""Advantage actor-critic for the traffic light simulator."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LightPolicy(nn.Module):
    def __init__(self, sensors=24, phases=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(sensors, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.pi = nn.Linear(128, phases)
        self.v = nn.Linear(128, 1)

    def forward(self, sensors):
        h = self.body(sensors)
        return F.softmax(self.pi(h), dim=-1), self.v(h).squeeze(-1)


def update(policy, optimizer, rollout, entropy_weight=0.01):
    sensors, actions, returns = rollout
    probs, values = policy(sensors)
    log_probs = torch.log(probs)  # expect: ESP210
    chosen = log_probs.gather(1, actions.unsqueeze(1)).squeeze(1)
    advantage = returns - values.detach()
    entropy = -(probs * log_probs).sum(1).mean()
    loss = -(chosen * advantage).mean() + 0.5 * F.mse_loss(values, returns) - entropy_weight * entropy
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    optimizer.step()


def discounted(rewards, last, gamma=0.98):
    total, out = last, []
    for reward in reversed(rewards):
        total = reward + gamma * total
        out.append(total)
    return torch.tensor(out[::-1])
