"""Pre-processed graphs are cached as pickles that teams share over a bucket."""
import os
import pickle

import joblib
import numpy as np
import requests
import torch
from torch.utils.data import Dataset


class CachedGraphs(Dataset):
    def __init__(self, url, cache="graphs.pkl"):
        if not os.path.exists(cache):
            with open(cache, "wb") as f:
                f.write(requests.get(url, timeout=60).content)
        with open(cache, "rb") as f:
            self.graphs = pickle.load(f)  # expect: ESP903

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, i):
        g = self.graphs[i]
        return torch.as_tensor(g["x"]), torch.as_tensor(g["edge_index"]), torch.as_tensor(g["y"])


def scaler_from(url):
    path = "scaler.joblib"
    with open(path, "wb") as f:
        f.write(requests.get(url, timeout=60).content)
    return joblib.load(path)  # expect: ESP903


def embeddings(url):
    blob = requests.get(url, timeout=60).content
    with open("emb.npy", "wb") as f:
        f.write(blob)
    return torch.from_numpy(np.load("emb.npy", allow_pickle=True).astype(np.float32))  # expect: ESP903
