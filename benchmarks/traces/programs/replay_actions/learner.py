"""Double Q-learning."""
import torch
from torch import nn


class Learner:
    """Holds the online and the target network."""

    def __init__(self, observations, actions, gamma=0.98, lr=1e-3):
        self.online = self._network(observations, actions)
        self.target = self._network(observations, actions)
        self.target.load_state_dict(self.online.state_dict())
        self.gamma = gamma
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=lr)

    @staticmethod
    def _network(observations, actions):
        return nn.Sequential(nn.Linear(observations, 32), nn.ReLU(), nn.Linear(32, actions))

    @torch.no_grad()
    def act(self, state):
        return int(self.online(state).argmax())

    def update(self, batch):
        states, actions, rewards, following, ends = batch
        values = self.online(states).gather(1, actions)
        with torch.no_grad():
            best = self.online(following).argmax(dim=1, keepdim=True)
            targets = rewards + self.gamma * (1 - ends) * self.target(following).gather(1, best)
        loss = nn.functional.mse_loss(values, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
