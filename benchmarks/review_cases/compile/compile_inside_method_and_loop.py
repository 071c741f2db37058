import torch
import torch.nn as nn


class Ensemble(nn.Module):
    def __init__(self, members):
        super().__init__()
        self.members = nn.ModuleList(members)

    @torch.inference_mode()
    def predict(self, batches):
        outs = []
        for x in batches:
            votes = [torch.compile(m)(x).softmax(-1) for m in self.members]  # expect: ESP504
            outs.append(torch.stack(votes).mean(0))
        return torch.cat(outs)


def physics(loader, net, opt, steps):
    net.train()
    for i in range(steps):
        @torch.compile  # expect: ESP504
        def residual(x):
            return net(x) - x.sin()

        x = next(loader)
        loss = residual(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
