import torch
from torch import nn
class Predictor:
    def __init__(self, path):
        self.model = nn.Sequential(nn.Linear(3, 3), nn.Dropout())
        self.model.load_state_dict(torch.load(path, weights_only=True))
        self.model.eval()

    def __call__(self, row):
        return self.model(row).argmax()


@torch.no_grad()
def main(rows):
    predictor = Predictor("a.pt")
    return [predictor(row) for row in rows]
