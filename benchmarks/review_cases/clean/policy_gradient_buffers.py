"""REINFORCE keeps log-probabilities with their graph until the episode ends: that graph is what is trained."""
import gymnasium as gym
import torch
import torch.nn as nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, obs, acts):
        super().__init__()
        self.affine1, self.dropout, self.affine2 = nn.Linear(obs, 128), nn.Dropout(p=0.6), nn.Linear(128, acts)
        self.value = nn.Linear(128, 1)
        self.saved, self.rewards = [], []

    def forward(self, x):
        h = torch.relu(self.dropout(self.affine1(x)))
        return torch.softmax(self.affine2(h), dim=-1), self.value(h).squeeze(-1)


def select_action(policy, state):
    probs, value = policy(torch.from_numpy(state).float())
    m = Categorical(probs)
    action = m.sample()
    policy.saved.append((m.log_prob(action), value))
    return action.item()


def finish_episode(policy, optimizer, gamma, eps=1e-8):
    r, returns = 0.0, []
    for reward in policy.rewards[::-1]:
        r = reward + gamma * r
        returns.insert(0, r)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_losses, value_losses = [], []
    for (log_prob, value), ret in zip(policy.saved, returns):
        policy_losses.append(-log_prob * (ret - value.item()))  # allow: ESP305
        value_losses.append(nn.functional.smooth_l1_loss(value, ret))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved[:]


def main(episodes=1000, gamma=0.99):
    env = gym.make("CartPole-v1")
    policy = Policy(4, 2)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for i in range(episodes):
        state, _ = env.reset()
        for _ in range(1, 10000):
            state, reward, done, trunc, _ = env.step(select_action(policy, state))
            policy.rewards.append(reward)
            if done or trunc:
                break
        finish_episode(policy, optimizer, gamma)
        if i % 10 == 0:
            print(i)


if __name__ == "__main__":
    main()
