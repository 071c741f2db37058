import torch


def sigmas(steps, low=0.01, high=10.0, rho=7.0):
    ramp = torch.linspace(0, 1, steps)
    return (high ** (1 / rho) + ramp * (low ** (1 / rho) - high ** (1 / rho))) ** rho


class Sampler:
    def __init__(self, net, steps=10):
        self.net = net
        self.sigma = sigmas(steps)
        self.steps = steps

    def level(self, fraction):
        return self.sigma[fraction * (self.steps - 1)]

    @torch.no_grad()
    def sample(self, shape, churn=0.5):
        x = torch.randn(shape) * self.sigma[0]
        for i in range(self.steps - 1):
            here, following = self.level(i / (self.steps - 1)), self.sigma[i + 1]
            x = x + churn * (following - here) * (x - self.net(x)) / here
        return x
