"""Loads, caches, hubs and exports that can be trusted."""
import hashlib
import io
import pickle
from pathlib import Path

import torch
import torch.nn as nn

torch.backends.cuda.matmul.fp32_precision = "tf32"
torch.backends.cudnn.conv.fp32_precision = "tf32"


def tagger():
    return torch.hub.load("birdlab/tagger:v2.3.1", "tagger_small", trust_repo="check")


def weights(path, device="cpu"):
    return torch.load(path, map_location=device, weights_only=True)


def copy_by_bytes(module):
    """A deep copy by way of memory; nothing from outside is read."""
    buffer = io.BytesIO()
    torch.save(module.state_dict(), buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def round_trip(options):
    return pickle.loads(pickle.dumps(options))  # allow: ESP903


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))

    def forward(self, x):
        return self.net(x)


def export(model, path):
    model.eval()
    example = torch.randn(2, 8)
    program = torch.export.export(model, (example,))
    torch.export.save(program, path)
    torch.jit.trace(model, example).save(str(path) + ".ts")
    return program


def quantised(model):
    model = model.eval()
    with torch.no_grad():
        return {k: v.to(torch.float16) for k, v in model.state_dict().items()}


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        export(Small(), f"{folder}/small.pt2")
        torch.save(quantised(Small()), f"{folder}/w.pt")
        assert weights(f"{folder}/w.pt") and digest(f"{folder}/w.pt") and copy_by_bytes(Small())
