"""Reading and writing training checkpoints."""
import logging
import os
import tempfile

import torch
from torch.hub import download_url_to_file

log = logging.getLogger(__name__)


def fetch(src, cache="~/.cache/fundus"):
    """Return a local path; http(s) sources are downloaded once."""
    if not src.startswith(("http://", "https://")):
        return src
    cache = os.path.expanduser(cache)
    os.makedirs(cache, exist_ok=True)
    dst = os.path.join(cache, os.path.basename(src))
    if not os.path.exists(dst):
        download_url_to_file(src, dst)
    return dst


def read(src):
    return torch.load(fetch(src), map_location="cpu", weights_only=False)


def write(path, model, optimizer, epoch, metrics):
    payload = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "metrics": metrics,
    }
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    fd, tmp = tempfile.mkstemp(dir=folder, suffix=".tmp")
    os.close(fd)
    torch.save(payload, tmp)
    os.replace(tmp, path)
    log.info("saved %s (epoch %d)", path, epoch)


def restore_model(model, src):
    ckpt = read(src)
    model.load_state_dict(ckpt["model"], strict=False)
    log.info("restored weights of epoch %s", ckpt.get("epoch"))
    return ckpt
