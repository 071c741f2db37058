import torch


class Rollout:
    def __init__(self):
        self.clear()

    def clear(self):
        self.states, self.actions, self.logs, self.rewards = [], [], [], []

    def add(self, state, action, log, reward):
        self.states.append(state)
        self.actions.append(action)
        self.logs.append(log)
        self.rewards.append(reward)

    def tensors(self):
        rewards = torch.tensor(self.rewards)
        return (
            torch.stack(self.states),
            torch.stack(self.actions),
            torch.stack(self.logs),
            rewards - rewards.mean(),
        )
