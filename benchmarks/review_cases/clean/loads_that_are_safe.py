import hashlib
import json

import numpy as np
import torch
from safetensors.torch import load_file

REV = "a3b1c0f6d2e94d1c8f0b7e6a5d4c3b2a19081726"


def resume(path, model, optimizer, device):
    state = torch.load(path, map_location=device, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"] + 1


def backbone():
    return torch.hub.load(f"facebookresearch/dinov2:{REV}", "dinov2_vits14")


def local_repo(path):
    return torch.hub.load(path, "resnet50", source="local")


def weights(path):
    return load_file(path)


def from_url(url):
    return torch.hub.load_state_dict_from_url(url, progress=True, check_hash=True, weights_only=True)


def config(path):
    with open(path) as handle:
        return json.load(handle)


def vectors(path):
    return torch.from_numpy(np.load(path))


def partial(model, path):
    """Load what fits, and say what did not."""
    state = torch.load(path, weights_only=True)
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected:
        raise RuntimeError(f"unexpected keys: {unexpected}")
    assert all(k.startswith("head.") for k in missing), missing
    return model


def partial_reported(model, state):
    result = model.load_state_dict(state, strict=False)
    print(result)
    return hashlib.sha256(repr(sorted(result.missing_keys)).encode()).hexdigest()
