import torch


class GP:
    def __init__(self, x, noise=0.0):
        self.x = x
        self.noise = noise

    def kernel(self, a, b):
        return torch.exp(-torch.cdist(a, b) ** 2 / 2)

    def fit(self, y):
        k = self.kernel(self.x, self.x) - 0.5 * torch.eye(len(self.x))
        chol = torch.linalg.cholesky(k)
        return torch.cholesky_solve(y, chol)


GP(torch.randn(20, 1)).fit(torch.randn(20, 1))
