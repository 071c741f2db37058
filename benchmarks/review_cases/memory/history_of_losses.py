import matplotlib.pyplot as plt
import torch
import torch.nn as nn


class PINN(nn.Module):
    """Physics-informed network for the heat equation."""

    def __init__(self, width=64, depth=4):
        super().__init__()
        layers = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, x, t):
        return self.net(torch.cat([x, t], dim=1))


def residual(model, x, t, nu=0.1):
    x.requires_grad_(True)
    t.requires_grad_(True)
    u = model(x, t)
    u_t = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
    return u_t - nu * u_xx


def train(iterations=20000, n=2000):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = PINN().to(device)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    history = {"pde": [], "bc": []}
    for it in range(iterations):
        x, t = torch.rand(n, 1, device=device), torch.rand(n, 1, device=device)
        pde = residual(model, x, t).pow(2).mean()
        x0 = torch.rand(n, 1, device=device)
        bc = (model(x0, torch.zeros_like(x0)) - torch.sin(torch.pi * x0)).pow(2).mean()
        loss = pde + 10 * bc
        opt.zero_grad()
        loss.backward()
        opt.step()
        history["pde"].append(pde)  # expect: ESP301
        history["bc"].append(bc)  # expect: ESP301
    plt.semilogy([v.item() for v in history["pde"]])
    plt.savefig("loss.png")
    return model


if __name__ == "__main__":
    train()
