import torch
import torch.nn as nn
import torch.nn.functional as F


class FPN(nn.Module):
    """Feature pyramid: intermediate maps live for one forward pass only."""

    def __init__(self, channels=(64, 128, 256, 512), dim=256):
        super().__init__()
        self.stem = nn.Conv2d(3, channels[0], 7, 4, 3)
        self.stages = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in zip(channels[:-1], channels[1:]))
        self.lateral = nn.ModuleList(nn.Conv2d(c, dim, 1) for c in channels)
        self.smooth = nn.ModuleList(nn.Conv2d(dim, dim, 3, padding=1) for _ in channels)

    def forward(self, x):
        features = [F.relu(self.stem(x))]
        for stage in self.stages:
            features.append(F.relu(stage(features[-1])))
        outs = []
        top = None
        for i in reversed(range(len(features))):
            here = self.lateral[i](features[i])
            if top is not None:
                here = here + F.interpolate(top, size=here.shape[-2:], mode="nearest")
            top = here
            outs.append(self.smooth[i](here))
        return outs[::-1]


class Probe:
    """Keeps the last activations for plotting; each pass replaces them."""

    def __init__(self, model, layers):
        self.last, self.stats = {}, []
        for name, module in model.named_modules():
            if name in layers:
                module.register_forward_hook(self._hook(name))

    def _hook(self, name):
        def hook(_module, _inputs, output):
            self.last[name] = output.detach()
            self.stats.append(output.detach().mean().cpu())

        return hook


class UNetDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.skips = []
        self.conv = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x):
        self.skips = []
        for _ in range(3):
            x = self.conv(x)
            self.skips.append(x)
        for skip in reversed(self.skips):
            x = x + skip
        self.skips.clear()
        return x
