import functools

import torch
import torch.nn as nn
import torch.utils.checkpoint as cp


class DenseLayer(nn.Module):
    def __init__(self, cin, growth=32, efficient=True):
        super().__init__()
        self.norm, self.conv, self.efficient = nn.BatchNorm2d(cin), nn.Conv2d(cin, growth, 3, padding=1), efficient

    def bottleneck(self, *inputs):
        return self.conv(torch.relu(self.norm(torch.cat(inputs, 1))))

    def forward(self, features):
        if self.efficient and any(f.requires_grad for f in features):
            return cp.checkpoint(self.bottleneck, *features)  # expect: ESP505
        return self.bottleneck(*features)


class Block(nn.Module):
    def __init__(self, cin, layers=6, growth=32):
        super().__init__()
        self.layers = nn.ModuleList(DenseLayer(cin + i * growth, growth) for i in range(layers))
        self.run = functools.partial(cp.checkpoint, use_reentrant=False)

    def forward(self, x):
        feats = [x]
        for layer in self.layers:
            feats.append(layer(feats))
        return self.run(torch.relu, torch.cat(feats, 1))
