import numpy as np
import torch
import torch.nn as nn


class CreditNet(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))

    def forward(self, x):
        return torch.sigmoid(self.net(x)).squeeze(-1)


def score_table(frame, weights, device="cuda"):
    model = CreditNet(frame.shape[1])
    model.load_state_dict(torch.load(weights, weights_only=True))
    model.to(device).eval()
    scores = []
    with torch.no_grad():
        for row in frame.to_numpy(np.float32):
            x = torch.from_numpy(row).unsqueeze(0).to(device)  # expect: ESP410|ESP408 @row
            scores.append(model(x).item())  # expect: ESP408|ESP410 @row
    return scores


def score_dataset(dataset, model, device="cuda"):
    model.eval()
    out = torch.empty(len(dataset))
    with torch.inference_mode():
        for i in range(len(dataset)):
            x, _ = dataset[i]
            out[i] = model(x[None].to(device))[0]  # expect: ESP408|ESP410
    return out
