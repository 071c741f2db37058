import torch
import torch.nn as nn


class PolicyNetwork(nn.Module):
    def __init__(self, state_dim, action_dim, hidden=128):
        super().__init__()
        self.model = nn.Sequential(
            nn.Linear(state_dim, hidden),
            nn.ReLU(),
            nn.Linear(hidden, action_dim),
            nn.Softmax(),  # expect: ESP202|ESP512
        )

    def forward(self, state):
        return self.model(state)


class Reinforce:
    def __init__(self, state_dim, action_dim, gamma=0.99):
        self.policy = PolicyNetwork(state_dim, action_dim)
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=1e-2)
        self.gamma, self.log_probs, self.rewards = gamma, [], []

    def act(self, state):
        probs = self.policy(torch.as_tensor(state, dtype=torch.float32).unsqueeze(0))
        dist = torch.distributions.Categorical(probs)
        action = dist.sample()
        self.log_probs.append(dist.log_prob(action))
        return action.item()

    def finish_episode(self):
        returns, g = [], 0.0
        for r in reversed(self.rewards):
            g = r + self.gamma * g
            returns.insert(0, g)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-8)
        loss = -(torch.cat(self.log_probs) * returns).sum()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.log_probs.clear()
        self.rewards.clear()
