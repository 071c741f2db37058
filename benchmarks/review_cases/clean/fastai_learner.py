import torch
import torch.nn as nn
from fastai.callback.core import Callback
from fastai.data.core import DataLoaders
from fastai.learner import Learner
from fastai.metrics import accuracy


class Mixout(nn.Module):
    def __init__(self, d, classes):
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(d, 256), nn.Linear(256, classes), nn.Dropout(0.5)

    def forward(self, x):
        return self.b(self.drop(torch.relu(self.a(x))))


class TrackGradNorm(Callback):
    """Gradient norms once every hundred batches."""

    def before_fit(self):
        self.norms = []

    def after_backward(self):
        if self.train_iter % 100 == 0:
            total = torch.stack([p.grad.norm() for p in self.model.parameters() if p.grad is not None]).norm()
            self.norms.append(total.item())


def main(train_ds, valid_ds, d, classes):
    dls = DataLoaders.from_dsets(train_ds, valid_ds, bs=512, device=torch.device("cuda"))
    learn = Learner(dls, Mixout(d, classes), loss_func=nn.CrossEntropyLoss(), metrics=accuracy, cbs=TrackGradNorm())
    learn.fit_one_cycle(5, 1e-3)
    preds, targs = learn.get_preds()
    print((preds.argmax(1) == targs).float().mean())
    return learn
