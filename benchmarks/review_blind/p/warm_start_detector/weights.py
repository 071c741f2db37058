"""Loading of external and internal checkpoints."""
import logging
from collections import OrderedDict

import torch

log = logging.getLogger(__name__)

WRAPPER_PREFIXES = ("module.", "_orig_mod.")


def _strip(key):
    changed = True
    while changed:
        changed = False
        for p in WRAPPER_PREFIXES:
            if key.startswith(p):
                key, changed = key[len(p):], True
    return key


def read_state(path):
    blob = torch.load(path, map_location="cpu", weights_only=True)
    state = blob.get("model", blob)
    return OrderedDict((_strip(k), v) for k, v in state.items()), blob


def load_backbone(model, path, skip=("head.",)):
    """Fill everything but the heads; anything else missing is an error."""
    state, _ = read_state(path)
    state = OrderedDict((k, v) for k, v in state.items() if not k.startswith(skip))
    res = model.load_state_dict(state, strict=False)
    missing = [k for k in res.missing_keys if not k.startswith(skip)]
    if missing or res.unexpected_keys:
        raise RuntimeError(f"missing {missing}, unexpected {res.unexpected_keys}")
    log.info("warm start from %s: %d tensors", path, len(state))


def resume(path, model, opt, sched):
    state, blob = read_state(path)
    model.load_state_dict(state)
    opt.load_state_dict(blob["opt"])
    sched.load_state_dict(blob["sched"])
    return blob["epoch"] + 1


def save(path, model, opt, sched, epoch):
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(),
                "sched": sched.state_dict(), "epoch": epoch}, path)
