"""Answers how likely customers are to leave."""
import torch
import torch.nn as nn

from predictor import Predictor


class ChurnNet(nn.Module):
    def __init__(self, plans=12, numbers=30):
        super().__init__()
        self.plan = nn.Embedding(plans, 8)
        self.body = nn.Sequential(
            nn.Linear(8 + numbers, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 1)
        )

    def forward(self, plan, numbers):
        return self.body(torch.cat([self.plan(plan), numbers], dim=1)).squeeze(1)


class ChurnService:
    def __init__(self, weights, device="cpu"):
        self.predict = Predictor(ChurnNet(), weights, device)

    def risks(self, customers):
        plan = torch.tensor([c["plan"] for c in customers])
        numbers = torch.tensor([c["numbers"] for c in customers], dtype=torch.float32)
        return torch.sigmoid(self.predict(plan, numbers)).tolist()


def nightly(weights, pages):
    service = ChurnService(weights, "cuda")
    for page in pages:
        yield [(c["id"], risk) for c, risk in zip(page, service.risks(page)) if risk > 0.7]
