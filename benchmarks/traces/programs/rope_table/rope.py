import torch


class Rotary(torch.nn.Module):
    def __init__(self, head_dim, max_len, base=10000.0):
        super().__init__()
        inv = base ** (-torch.arange(0, head_dim, 2) / head_dim)
        angle = torch.outer(torch.arange(max_len).float(), inv)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, x):
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1).flatten(-2)
