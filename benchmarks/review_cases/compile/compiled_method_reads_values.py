import logging
import random

import torch
import torch.nn as nn

logger = logging.getLogger("model")


class Drafter(nn.Module):
    def __init__(self, d=512, n=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(d, 8, batch_first=True) for _ in range(n))
        self.exit = nn.ModuleList(nn.Linear(d, 2) for _ in range(n))
        self.out = nn.Linear(d, 32000)

    @torch.compile
    def forward(self, x):
        for i, (layer, gate) in enumerate(zip(self.layers, self.exit)):
            x = layer(x)
            confidence = gate(x).softmax(-1)[..., 1].mean()
            if confidence > 0.9:  # expect: ESP501
                logger.info("early exit at %d", i)  # allow: ESP501
                break
        top = x.abs().max().tolist()  # expect: ESP501
        if top > 1e4:
            x = x / top
        return self.out(x)


def drop_layers(x, layers, p):
    for layer in layers:
        if random.random() > p:
            x = layer(x)
    return x


def run(ids, emb):
    model = Drafter().cuda().eval()
    with torch.inference_mode():
        return model(emb(ids))
