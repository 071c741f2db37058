"""Implicit Q-learning: the value function's expectile regression."""
import torch
import torch.nn as nn


def mlp(inp, out, width=256):
    return nn.Sequential(nn.Linear(inp, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out))


class IQL:
    def __init__(self, obs_dim, act_dim, tau=0.7, gamma=0.99, device="cuda"):
        self.q = mlp(obs_dim + act_dim, 1).to(device)
        self.v = mlp(obs_dim, 1).to(device)
        self.q_opt = torch.optim.Adam(self.q.parameters(), 3e-4)
        self.v_opt = torch.optim.Adam(self.v.parameters(), 3e-4)
        self.tau, self.gamma, self.device = tau, gamma, device

    def update(self, batch):
        obs, act, reward, nxt, done = (x.to(self.device) for x in batch)
        with torch.no_grad():
            target_v = self.q(torch.cat([obs, act], 1))
            boot = reward + self.gamma * (1 - done) * self.v(nxt).squeeze(1)
        backup = torch.tensor(boot, device=self.device)  # expect: ESP206

        gap = target_v - self.v(obs)
        v_loss = (torch.where(gap > 0, self.tau, 1 - self.tau) * gap.square()).mean()
        self.v_opt.zero_grad(set_to_none=True)
        v_loss.backward()
        self.v_opt.step()

        q = self.q(torch.cat([obs, act], 1)).squeeze(1)
        q_loss = (q - backup).square().mean()
        self.q_opt.zero_grad(set_to_none=True)
        q_loss.backward()
        self.q_opt.step()
        return v_loss.item(), q_loss.item()  # expect: ESP305 @read


def train(agent, loader, steps):
    for step, batch in zip(range(steps), loader):
        v_loss, q_loss = agent.update(batch)  # expect: ESP305 @read
        if step % 1000 == 0:
            print(f"{step:7d} v {v_loss:.3f} q {q_loss:.3f}")
