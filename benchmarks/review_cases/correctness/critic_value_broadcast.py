"""Advantage actor-critic on Pendulum."""
import gymnasium as gym
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions import Normal


def mlp(sizes):
    layers = []
    for i, o in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(i, o), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Critic(nn.Module):
    def __init__(self, obs_dim):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim, 64)
        self.fc2 = nn.Linear(64, 64)
        self.value = nn.Linear(64, 1)

    def forward(self, obs):
        h = torch.tanh(self.fc1(obs))
        return self.value(torch.tanh(self.fc2(h)))


def discounted(rewards, gamma):
    out, running = [], 0.0
    for r in reversed(rewards):
        running = r + gamma * running
        out.insert(0, running)
    return torch.tensor(out, dtype=torch.float32)


def main(episodes=1000, gamma=0.95):
    env = gym.make("Pendulum-v1")
    actor, critic = mlp([3, 64, 64, 1]), Critic(3)
    log_std = nn.Parameter(torch.zeros(1))
    opt = optim.Adam([*actor.parameters(), *critic.parameters(), log_std], lr=1e-3)
    for ep in range(episodes):
        obs, _ = env.reset()
        states, logps, rewards = [], [], []
        done = False
        while not done:
            s = torch.from_numpy(obs).float()
            dist = Normal(actor(s), log_std.exp())
            a = dist.sample()
            obs, r, term, trunc, _ = env.step(a.numpy())
            states.append(s)
            logps.append(dist.log_prob(a).sum())
            rewards.append(float(r))
            done = term or trunc
        returns = discounted(rewards, gamma)
        values = critic(torch.stack(states))
        advantage = returns - values.squeeze(-1).detach()
        policy_loss = -(torch.stack(logps) * advantage).mean()
        value_loss = nn.functional.mse_loss(values, returns)  # expect: ESP105
        opt.zero_grad()
        (policy_loss + 0.5 * value_loss).backward()
        opt.step()
        if ep % 20 == 0:
            print(ep, sum(rewards))


if __name__ == "__main__":
    main()
