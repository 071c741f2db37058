"""Checkpointing done right: weights alone for inference, everything for training."""
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def save(path, model, optimizer, scheduler, epoch):
    raw = model.module if isinstance(model, DDP) else model
    torch.save({"model": raw.state_dict(), "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(), "epoch": epoch}, path)


def restore(path, model, optimizer, scheduler):
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    return state["epoch"] + 1


def load_pretrained(path, model):
    state = torch.load(path, map_location="cpu", weights_only=True)
    state = {k.removeprefix("module."): v for k, v in state["model"].items()}
    model.load_state_dict(state)
    return model


def finetune(path, model, loader, lr, epochs):
    model = load_pretrained(path, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    criterion = torch.nn.CrossEntropyLoss()
    model.train()
    for epoch in range(epochs):
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save(model.state_dict(), "finetuned.pt")
