"""Logistic regression from scratch, for a course."""
import torch


def make_data(n=1000, d=5):
    w = torch.randn(d, 1)
    x = torch.randn(n, d)
    y = (torch.sigmoid(x @ w) > 0.5).float()
    return x, y


def accuracy(x, y, w, b):
    return (((x @ w + b) > 0).float() == y).float().mean()


def main(lr=0.1, epochs=100):
    x, y = make_data()
    w = torch.zeros(x.shape[1], 1, requires_grad=True)
    b = torch.zeros(1, requires_grad=True)
    for epoch in range(epochs):
        logits = x @ w + b
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, y)
        loss.backward()
        w -= lr * w.grad  # expect: ESP106
        b -= lr * b.grad  # expect: ESP106
        w.grad = None
        b.grad = None
        if epoch % 10 == 0:
            with torch.no_grad():
                print(epoch, loss.item(), accuracy(x, y, w, b).item())


main()
