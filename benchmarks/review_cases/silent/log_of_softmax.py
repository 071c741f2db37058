"""REINFORCE with entropy bonus; probabilities are taken apart by hand."""
import gymnasium as gym
import torch
import torch.nn as nn
import torch.nn.functional as F


class Policy(nn.Module):
    def __init__(self, obs, acts):
        super().__init__()
        self.l1, self.l2 = nn.Linear(obs, 64), nn.Linear(64, acts)

    def forward(self, x):
        return F.softmax(self.l2(torch.tanh(self.l1(x))), dim=-1)


def train(episodes=500, gamma=0.99, beta=0.01):
    env = gym.make("Acrobot-v1")
    policy = Policy(6, 3)
    opt = torch.optim.Adam(policy.parameters(), 3e-3)
    for ep in range(episodes):
        obs, _ = env.reset()
        logps, ents, rewards, done = [], [], [], False
        while not done:
            probs = policy(torch.from_numpy(obs))
            action = torch.multinomial(probs, 1).item()
            logp = torch.log(probs)  # expect: ESP210|ESP213
            logps.append(logp[action])
            ents.append(-(probs * logp).sum())
            obs, r, term, trunc, _ = env.step(action)
            rewards.append(r)
            done = term or trunc
        g, returns = 0.0, []
        for r in reversed(rewards):
            g = r + gamma * g
            returns.append(g)
        returns = torch.tensor(returns[::-1])
        loss = -(torch.stack(logps) * returns).sum() - beta * torch.stack(ents).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if ep % 50 == 0:
            print(ep, sum(rewards))


train()
