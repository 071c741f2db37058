"""Trains a matcher of drug and target on features that colleagues have put on the share."""
import pickle

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def read(folder):
    with open(f"{folder}/fingerprints.pkl", "rb") as handle:
        fingerprints = pickle.load(handle)  # expect: ESP903|ESP901
    proteins = np.load(f"{folder}/proteins.npy", allow_pickle=True)  # expect: ESP903
    affinity = np.load(f"{folder}/affinity.npy")
    x = torch.from_numpy(np.stack([np.asarray(f, dtype=np.float32) for f in fingerprints]))
    z = torch.from_numpy(np.stack(list(proteins)).astype(np.float32))
    return TensorDataset(x, z, torch.from_numpy(affinity).float())


class Matcher(nn.Module):
    def __init__(self, bits=2048, dim=1024):
        super().__init__()
        self.drug = nn.Sequential(nn.Linear(bits, 512), nn.ReLU(), nn.Linear(512, 128))
        self.target = nn.Sequential(nn.Linear(dim, 512), nn.ReLU(), nn.Linear(512, 128))
        self.out = nn.Linear(256, 1)

    def forward(self, drug, target):
        return self.out(torch.cat([self.drug(drug), self.target(target)], dim=1)).squeeze(1)


def train(folder, epochs=50):
    loader = DataLoader(read(folder), batch_size=256, shuffle=True)
    net = Matcher()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(epochs):
        net.train()
        for drug, target, affinity in loader:
            loss = F.mse_loss(net(drug, target), affinity)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
    return net
