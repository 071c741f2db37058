import torch


def store(path, **parts):
    torch.save({name: part.state_dict() for name, part in parts.items()}, path)


def restore(path, model, optimizer):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
