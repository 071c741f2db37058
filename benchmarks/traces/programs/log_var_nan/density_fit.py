import torch

from density import DiagonalNLL, Predictor


def batch(n):
    x = torch.randn(n, 4)
    y = torch.stack([x[:, 0], x[:, 1].sin(), torch.zeros(n)], 1)
    return x, y


def main():
    model, nll = Predictor(), DiagonalNLL()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    with torch.autograd.detect_anomaly():
        for _ in range(3):
            x, y = batch(32)
            loss = nll(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    main()
