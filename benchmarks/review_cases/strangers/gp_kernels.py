"""Gaussian processes for wind power, written out."""
import torch

torch.backends.cuda.matmul.fp32_precision = "tf32"
torch.backends.cudnn.allow_tf32 = True  # expect: ESP510


def rbf(a, b, length, variance):
    return variance * torch.exp(-0.5 * torch.cdist(a / length, b / length).square())


def likelihood(x, y, length, variance, noise):
    k = rbf(x, x, length, variance) + noise * torch.eye(len(x), device=x.device)
    factor = torch.cholesky(k)  # expect: ESP512
    alpha = torch.cholesky_solve(y.unsqueeze(1), factor).squeeze(1)
    return -0.5 * y @ alpha - factor.diagonal().log().sum()


def principal_directions(x, count):
    """Directions of the largest variance, to shorten the inputs."""
    centred = x - x.mean(0)
    values, vectors = torch.symeig(centred.t() @ centred, eigenvectors=True)  # expect: ESP511
    return vectors[:, -count:].flip(1)


def fit(x, y, steps=200, lr=0.05):
    logs = torch.zeros(3, requires_grad=True, device=x.device)
    optimizer = torch.optim.Adam([logs], lr=lr)
    for step in range(steps):
        length, variance, noise = logs.exp()
        loss = -likelihood(x, y, length, variance, noise + 1e-4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(step, loss.item())
    return logs.detach().exp()
