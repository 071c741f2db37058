import torch
from torch import nn


def export(model, path):
    dummy = torch.randn(1, 3, 16, 16)
    torch.onnx.export(model, (dummy,), path, opset_version=18)


export(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval(), "/tmp/esper_model.onnx")
