"""Rollout storage and advantage estimation for batched simulators.

The simulator resets an environment on its own; `obs[t + 1]` of a finished
environment already belongs to the following episode.
"""
import torch


class RolloutStorage:
    def __init__(self, num_envs, horizon, obs_dim, act_dim, device):
        self.horizon = horizon
        self.step = 0
        self.obs = torch.zeros(horizon, num_envs, obs_dim, device=device)
        self.final_obs = torch.zeros(horizon, num_envs, obs_dim, device=device)
        self.actions = torch.zeros(horizon, num_envs, act_dim, device=device)
        self.log_probs = torch.zeros(horizon, num_envs, device=device)
        self.rewards = torch.zeros(horizon, num_envs, device=device)
        self.values = torch.zeros(horizon, num_envs, device=device)
        self.terminated = torch.zeros(horizon, num_envs, dtype=torch.bool, device=device)
        self.truncated = torch.zeros(horizon, num_envs, dtype=torch.bool, device=device)
        self.advantages = torch.zeros(horizon, num_envs, device=device)
        self.returns = torch.zeros(horizon, num_envs, device=device)

    def add(self, obs, action, log_prob, value, reward, terminated, truncated, final_obs):
        t = self.step
        self.obs[t].copy_(obs)
        self.actions[t].copy_(action)
        self.log_probs[t].copy_(log_prob)
        self.values[t].copy_(value)
        self.rewards[t].copy_(reward)
        self.terminated[t].copy_(terminated)
        self.truncated[t].copy_(truncated)
        self.final_obs[t].copy_(final_obs)
        self.step += 1

    @torch.no_grad()
    def compute_returns(self, critic, last_obs, gamma=0.99, lam=0.95):
        last_value = critic(last_obs).squeeze(-1)
        cut = self.truncated & ~self.terminated
        rewards = self.rewards + gamma * self.values * cut
        done = (self.terminated | self.truncated).float()
        gae = torch.zeros_like(last_value)
        for t in reversed(range(self.horizon)):
            next_value = last_value if t == self.horizon - 1 else self.values[t + 1]
            alive = 1.0 - done[t]
            delta = rewards[t] + gamma * next_value * alive - self.values[t]
            gae = delta + gamma * lam * alive * gae
            self.advantages[t] = gae
        self.returns = self.advantages + self.values

    def minibatches(self, num_batches, epochs):
        total = self.horizon * self.rewards.size(1)
        flat = {
            "obs": self.obs.flatten(0, 1),
            "actions": self.actions.flatten(0, 1),
            "log_probs": self.log_probs.flatten(),
            "advantages": self.advantages.flatten(),
            "returns": self.returns.flatten(),
        }
        adv = flat["advantages"]
        flat["advantages"] = (adv - adv.mean()) / (adv.std() + 1e-8)
        for _ in range(epochs):
            perm = torch.randperm(total, device=self.obs.device)
            for idx in perm.chunk(num_batches):
                yield {k: v[idx] for k, v in flat.items()}

    def clear(self):
        self.step = 0
