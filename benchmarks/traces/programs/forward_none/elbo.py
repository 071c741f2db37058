import torch
import torch.nn.functional as F

from vae import VAE


def elbo(model, x):
    y, mu, logvar = model(x)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()
    return F.mse_loss(y, x) + 1e-3 * kl


if __name__ == "__main__":
    model = VAE()
    opt = torch.optim.Adam(model.parameters())
    for _ in range(3):
        loss = elbo(model, torch.randn(8, 12))
        opt.zero_grad()
        loss.backward()
        opt.step()
