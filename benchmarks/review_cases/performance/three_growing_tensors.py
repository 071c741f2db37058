import torch
import torch.nn as nn


class Buffer:
    """Keeps transitions of one iteration."""

    def __init__(self):
        self.obs = None

    def add(self, obs):
        self.obs = obs if self.obs is None else torch.cat([self.obs, obs])  # allow: ESP401


def rollouts(env, policy, steps):
    states = torch.zeros(0, 8)
    returns = torch.tensor([])
    state = env.reset()
    for t in range(steps):
        with torch.no_grad():
            action = policy(state)
        states = torch.vstack([states, state])  # expect: ESP401
        state, reward = env.step(action)
        returns = torch.hstack((returns, reward))  # expect: ESP401
    return states, returns


def features(model: nn.Module, chunks):
    model.eval()
    with torch.no_grad():
        feats = None
        for chunk in chunks:
            f = model(chunk)
            if feats is None:
                feats = f
            else:
                feats = torch.cat((feats, f), 0)  # expect: ESP401
    return feats
