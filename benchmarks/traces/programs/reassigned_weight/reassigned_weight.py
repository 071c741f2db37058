import torch

w = torch.randn(3, 1, requires_grad=True)
lr = 0.01
for _ in range(3):
    x, y = torch.randn(10, 3), torch.randn(10, 1)
    loss = ((x @ w - y) ** 2).mean()
    loss.backward()
    w = w - lr * w.grad
    w.grad.zero_()
