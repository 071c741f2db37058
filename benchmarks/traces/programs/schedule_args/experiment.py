import torch
from torch import nn

from builders import SCHEDULERS, build

EXPERIMENT = {
    "lr": 0.05,
    "epochs": 4,
    "scheduler": {"name": "cosine", "t_max": 4},
}


class Experiment:
    def __init__(self, config):
        self.config = config
        self.model = nn.Linear(6, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=config["lr"])
        self.scheduler = build(SCHEDULERS, self.optimizer, config["scheduler"])

    def run(self):
        for _ in range(self.config["epochs"]):
            loss = self.model(torch.randn(9, 6)).logsumexp(1).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()


if __name__ == "__main__":
    Experiment(EXPERIMENT).run()
