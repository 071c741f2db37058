import gpytorch
import torch


class ExactGP(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def fit(x, y, iterations=100):
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = ExactGP(x, y, likelihood)
    model.train()
    likelihood.train()
    opt = torch.optim.Adam(model.parameters(), lr=0.1)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    for i in range(iterations):
        opt.zero_grad()
        loss = -mll(model(x), y)
        loss.backward()
        opt.step()
    return model, likelihood


def predict(model, likelihood, x):
    model.eval()
    likelihood.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        pred = likelihood(model(x))
        lower, upper = pred.confidence_region()
    return pred.mean, lower, upper


def acquisition(model, likelihood, best, bounds, restarts=10, steps=50):
    """Expected improvement by gradient ascent on the inputs; the model is frozen in evaluation mode."""
    model.eval()
    likelihood.eval()
    x = (bounds[0] + (bounds[1] - bounds[0]) * torch.rand(restarts, bounds.size(1))).requires_grad_(True)
    opt = torch.optim.Adam([x], lr=0.05)
    for _ in range(steps):
        opt.zero_grad()
        pred = model(x)
        sigma = pred.variance.clamp_min(1e-9).sqrt()
        u = (pred.mean - best) / sigma
        normal = torch.distributions.Normal(0.0, 1.0)
        ei = sigma * (normal.log_prob(u).exp() + u * normal.cdf(u))
        (-ei.sum()).backward()
        opt.step()
        with torch.no_grad():
            x.clamp_(bounds[0], bounds[1])
    return x.detach()
