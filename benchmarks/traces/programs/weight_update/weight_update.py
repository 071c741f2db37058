import torch

w = torch.randn(3, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
lr = 0.1
for _ in range(3):
    x, y = torch.randn(10, 3), torch.randn(10)
    loss = ((x @ w + b - y) ** 2).mean()
    loss.backward()
    w -= lr * w.grad
    b -= lr * b.grad
    w.grad.zero_()
