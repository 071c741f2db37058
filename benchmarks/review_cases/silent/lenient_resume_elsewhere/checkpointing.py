from pathlib import Path

import torch


def save(path, model, optimizer, step):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)


def latest(folder):
    found = sorted(Path(folder).glob("step_*.pt"))
    return found[-1] if found else None


def restore(folder, model, optimizer):
    path = latest(folder)
    if path is None:
        return 0
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"], False)  # expect: ESP203
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]
