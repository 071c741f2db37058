import torch


class SoftPrompt(torch.nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self.prompt = torch.nn.Parameter(torch.empty(n, dim))
        self.reset()

    def reset(self):
        self.prompt.uniform_(-0.5, 0.5)

    def forward(self, x):
        return torch.cat([self.prompt.expand(x.size(0), -1, -1), x], dim=1)


SoftPrompt(4, 8)(torch.randn(2, 3, 8))
