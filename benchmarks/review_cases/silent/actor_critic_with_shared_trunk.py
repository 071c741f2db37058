"""Advantage actor critic on vector environments."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, actions):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, 64), nn.Tanh())
        self.pi = nn.Linear(64, actions)
        self.v = nn.Linear(64, 1)

    def forward(self, obs):
        h = self.trunk(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def update(net, optimizer, rollout, value_coef=0.5, entropy_coef=0.01):
    dist, values = net(rollout["obs"])
    returns = rollout["returns"]
    advantage = returns - values
    log_probs = dist.log_prob(rollout["actions"])
    policy_loss = -(log_probs * advantage).mean()  # expect: ESP231
    value_loss = F.mse_loss(values, returns)
    loss = policy_loss + value_coef * value_loss - entropy_coef * dist.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
    return loss.item()  # allow: ESP305


def train(env, net, updates, horizon):
    optimizer = torch.optim.Adam(net.parameters(), lr=7e-4)
    for _ in range(updates):
        rollout = collect(env, net, horizon)
        update(net, optimizer, rollout)


def collect(env, net, horizon):
    obs, actions, rewards = [], [], []
    state = torch.as_tensor(env.reset(), dtype=torch.float32)
    for _ in range(horizon):
        with torch.no_grad():
            dist, _ = net(state)
        action = dist.sample()
        nxt, reward, done, _ = env.step(action.numpy())
        obs.append(state)
        actions.append(action)
        rewards.append(torch.as_tensor(reward, dtype=torch.float32))
        state = torch.as_tensor(nxt, dtype=torch.float32)
    returns, running = [], torch.zeros_like(rewards[-1])
    for r in reversed(rewards):
        running = r + 0.99 * running
        returns.insert(0, running)
    return {"obs": torch.stack(obs), "actions": torch.stack(actions), "returns": torch.stack(returns)}
