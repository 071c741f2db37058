import torch
import torch.nn.functional as F

from retrieval import TwoSided


def loop(n=3):
    model = TwoSided(10, 14)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for _ in range(n):
        scores = model(torch.rand(6, 10), torch.rand(6, 14))
        target = torch.arange(6)
        loss = 0.5 * (F.cross_entropy(scores, target) + F.cross_entropy(scores.T, target))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    loop()
