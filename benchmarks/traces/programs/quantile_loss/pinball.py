import torch


class Pinball:
    def __init__(self, quantiles):
        self.q = torch.tensor(quantiles)

    def __call__(self, prediction, target):
        error = target - prediction
        return torch.maximum(self.q * error, (self.q - 1) * error).mean()
