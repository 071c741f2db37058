"""A synchronous actor-critic; values leave the device where the environment needs them."""

import collections

import torch
import torch.nn as nn
import torch.nn.functional as F


class ActorCritic(nn.Module):
    def __init__(self, observations=8, actions=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observations, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.actor, self.critic = nn.Linear(128, actions), nn.Linear(128, 1)

    def forward(self, obs):
        h = self.body(obs)
        return torch.distributions.Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


def returns(rewards, alive, bootstrap, gamma=0.99):
    out = torch.empty_like(rewards)
    for t in range(len(rewards) - 1, -1, -1):
        bootstrap = rewards[t] + gamma * alive[t] * bootstrap
        out[t] = bootstrap
    return out


def train(envs, device="cuda", updates=5000, horizon=64):
    net = ActorCritic().to(device)
    opt = torch.optim.RMSprop(net.parameters(), lr=7e-4)
    recent = collections.deque(maxlen=100)
    spent = torch.zeros((), device=device)
    obs = torch.as_tensor(envs.reset(), dtype=torch.float32, device=device)
    for update in range(1, updates + 1):
        logps, values, entropies, rewards, alive = [], [], [], [], []
        for _ in range(horizon):
            dist, value = net(obs)
            action = dist.sample()
            step = envs.step(action.cpu().numpy())
            obs = torch.as_tensor(step.obs, dtype=torch.float32, device=device)
            logps.append(dist.log_prob(action))
            entropies.append(dist.entropy())
            values.append(value)
            rewards.append(step.reward)
            alive.append(1.0 - step.done)
            recent.extend(step.finished_returns)
        with torch.no_grad():
            _, last = net(obs)
            reward = torch.tensor(rewards, dtype=torch.float32, device=device)
            goal = returns(reward, torch.tensor(alive, dtype=torch.float32, device=device), last)
        value = torch.stack(values)
        advantage = goal - value.detach()
        loss = -(torch.stack(logps) * advantage).mean() + 0.5 * F.mse_loss(value, goal)
        loss = loss - 0.01 * torch.stack(entropies).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        spent += loss.detach()
        if update % 100 == 0:
            print(update, (spent / 100).item(), sum(recent) / max(len(recent), 1))
            spent.zero_()
