"""Training: a step that is compiled whole, and modules whose backward is traced."""

import torch
from torch import nn


def step():  # breaks
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(x):
        optimizer.zero_grad()  # break
        loss = model(x).pow(2).mean()
        loss.backward()  # break
        optimizer.step()  # break
        return loss.item()  # break

    return train


class Classifier(nn.Module):  # clean; train
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4))

    def forward(self, x):
        return nn.functional.log_softmax(self.body(x), dim=1)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        if gradient.sum() > 0:  # break for function_with_a_branch_in_backward
            return gradient * 2
        return gradient


def function_with_a_branch_in_backward(x):  # breaks; train
    return Doubled.apply(x) + 1
