import torch
import torch.nn as nn
import torch.nn.functional as F


class Experiment:
    """One method runs both kinds of epochs."""

    def __init__(self, nets: dict[str, nn.Module], loaders, device):
        self.nets = {k: n.to(device) for k, n in nets.items()}
        self.loaders, self.device = loaders, device
        params = [p for n in self.nets.values() for p in n.parameters()]
        self.opt = torch.optim.AdamW(params, 1e-3)

    def set_train(self):
        for net in self.nets.values():
            net.train()

    def set_eval(self):
        for net in self.nets.values():
            net.eval()

    def forward(self, image, text):
        z = torch.cat([self.nets["image"](image), self.nets["text"](text)], dim=-1)
        return self.nets["head"](z)

    def epoch(self, split, train):
        self.set_train() if train else self.set_eval()
        total = torch.zeros((), device=self.device)
        with torch.set_grad_enabled(train):
            for image, text, y in self.loaders[split]:
                loss = F.cross_entropy(self.forward(image.to(self.device), text.to(self.device)), y.to(self.device))
                if train:
                    self.opt.zero_grad(set_to_none=True)
                    loss.backward()
                    self.opt.step()
                total += loss.detach()
        return (total / len(self.loaders[split])).item()

    def fit(self, epochs):
        for e in range(epochs):
            print(e, self.epoch("train", True), self.epoch("val", False))


def run(model, loader, opt=None):
    is_train = opt is not None
    model.train(is_train)
    for x, y in loader:
        with torch.inference_mode(not is_train):
            loss = F.mse_loss(model(x), y)
        if is_train:
            opt.zero_grad()
            loss.backward()
            opt.step()
    return loss.item()
