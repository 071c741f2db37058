import torch
from torch import nn


def build(cfg):
    return nn.TransformerEncoderLayer(cfg["d_model"], nheads=4)


build({"d_model": 32})
