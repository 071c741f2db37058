import torch
from torch import nn
def episode(env, policy, optimizer):
    log_probs, rewards = [], []
    state, done = env.reset(), False
    while not done:
        dist = torch.distributions.Categorical(logits=policy(state))
        action = dist.sample()
        log_probs.append(dist.log_prob(action))
        state, reward, done = env.step(action.item())
        rewards.append(reward)
    loss = -(torch.stack(log_probs) * torch.tensor(rewards)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def train(env, policy, optimizer):
    for _ in range(100):
        episode(env, policy, optimizer)
