import torch


class Running:
    def __init__(self, rate=0.1):
        self.rate, self.values = rate, {}

    def update(self, name, value):
        old = self.values.get(name, torch.zeros(()))
        self.values[name] = (1 - self.rate) * old + self.rate * value
        return self.values[name]
