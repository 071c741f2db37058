import hashlib
import json
import pickle
from pathlib import Path

import torch
from torch import nn

COMMIT = "2b6e1d6d7fbd2ab8ac1b5a1f8f1f1b5e7e2c9f10"


def backbone(local_copy=None):
    if local_copy is not None:
        return torch.hub.load(local_copy, "tiny_encoder", source="local")
    return torch.hub.load(f"openbio/encoders:{COMMIT}", "tiny_encoder")


class Snapshots:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def save(self, model, optimizer, step):
        path = self.folder / f"{step:08d}.pt"
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        path.with_suffix(".json").write_text(json.dumps({"sha256": digest, "step": step}))

    def newest(self):
        return max(self.folder.glob("*.pt"), default=None)

    def restore(self, model, optimizer):
        path = self.newest()
        if path is None:
            return 0
        state = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return state["step"]


def load_mapped(path):
    with torch.serialization.safe_globals([Path]):
        return torch.load(path, mmap=True, weights_only=True, map_location=torch.device("cpu"))


def size_in_bytes(config):
    return len(pickle.dumps(config))


def export_vocabulary(vocabulary, path):
    Path(path).write_text(json.dumps(vocabulary, sort_keys=True))


def rebuild(vocabulary_path, weights_path, dim=64):
    vocabulary = json.loads(Path(vocabulary_path).read_text())
    table = nn.Embedding(len(vocabulary), dim)
    table.load_state_dict(torch.load(weights_path, weights_only=True))
    return vocabulary, table.eval()
