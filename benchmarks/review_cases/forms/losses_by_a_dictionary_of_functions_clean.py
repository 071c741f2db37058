import torch
from torch import nn
def keep_loss(state, outputs):
    state["losses"].append(outputs["loss"])


def keep_lr(state, outputs):
    state["lrs"].append(outputs["lr"])


HANDLERS = {"loss": keep_loss, "lr": keep_lr}


def train(model, loader, optimizer):
    state = {"losses": [], "lrs": []}
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        outputs = {"loss": loss.detach(), "lr": optimizer.param_groups[0]["lr"]}
        for name in ("loss", "lr"):
            HANDLERS[name](state, outputs)
    return state
