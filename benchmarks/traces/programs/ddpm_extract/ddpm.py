import torch
import torch.nn.functional as F

from diffusion import Eps, Schedule


def step(net, schedule, x0, opt):
    t = torch.randint(0, schedule.steps, (x0.shape[0],))
    eps = torch.randn_like(x0)
    loss = F.mse_loss(net(schedule.noised(x0, t, eps), t), eps)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


if __name__ == "__main__":
    net, schedule = Eps(), Schedule()
    opt = torch.optim.Adam(net.parameters(), lr=2e-4)
    for _ in range(3):
        print(step(net, schedule, torch.randn(6, 3, 16, 16), opt))
