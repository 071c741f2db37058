import torch


def huber(pred, target, delta=1.0):
    err = (pred - target).abs()
    if err.max() < delta:
        return (0.5 * err**2).mean()
    return (delta * (err - 0.5 * delta)).mean()


fast = torch.compile(huber, fullgraph=True)
print(fast(torch.randn(10), torch.randn(10)))
