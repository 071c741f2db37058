import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(16, 4))

    def forward(self, x):
        return self.net(x)


class Exporter:
    def __init__(self, path):
        self.model = Net()
        self.model.load_state_dict(torch.load(path, weights_only=True))
        self.model.eval()

    def onnx(self, out):
        torch.onnx.export(self.model, (torch.randn(1, 1, 64, 64),), out, dynamo=True)

    def program(self):
        with torch.no_grad():
            return torch.export.export(self.model, (torch.randn(2, 1, 64, 64),))


def fine_tune_program(model: nn.Module, example):
    # Training graph: the mode is wanted as it is.
    return torch.export.export(model.train(), example).module()


def export_with_restore(model, example, path):
    was_training = model.training
    model.eval()
    try:
        torch.onnx.export(model, example, path, dynamo=True)
    finally:
        model.train(was_training)
