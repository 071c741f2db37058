import torch
from torch import nn


def make_steps(network, optimizer):
    def train_step(spectra, kinds):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(spectra), kinds)
        loss.backward()
        optimizer.step()

    def eval_step(spectra, kinds):
        predicted = network(spectra).argmax(dim=-1)  # expect: ESP102
        return (predicted == kinds).sum().item()

    return train_step, eval_step


def main(train_loader, held_out):
    classifier = nn.Sequential(nn.Linear(700, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.4), nn.Linear(256, 12))
    optimizer = torch.optim.Adam(classifier.parameters(), lr=5e-4)
    train_step, eval_step = make_steps(classifier, optimizer)
    for epoch in range(30):
        classifier.train()
        for spectra, kinds in train_loader:
            train_step(spectra, kinds)
        right = 0
        for spectra, kinds in held_out:
            right += eval_step(spectra, kinds)
        print(epoch, right)
