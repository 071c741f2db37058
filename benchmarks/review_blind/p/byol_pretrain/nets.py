import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import resnet18


def mlp(d_in, d_hidden, d_out):
    return nn.Sequential(
        nn.Linear(d_in, d_hidden, bias=False),
        nn.BatchNorm1d(d_hidden),
        nn.ReLU(inplace=True),
        nn.Linear(d_hidden, d_out),
    )


class Encoder(nn.Module):
    """Backbone followed by the projector."""

    def __init__(self, proj=256, hidden=2048):
        super().__init__()
        net = resnet18(weights=None)
        dim = net.fc.in_features
        net.fc = nn.Identity()
        self.backbone = net
        self.projector = mlp(dim, hidden, proj)

    def forward(self, x):
        return self.projector(self.backbone(x))


def regression_loss(p, z):
    return 2 - 2 * F.cosine_similarity(p, z, dim=-1).mean()
