import os
import pickle

import torch


def read_checkpoint(path, device="cpu"):
    if path.endswith(".pkl"):
        with open(path, "rb") as handle:
            return pickle.load(handle)  # expect: ESP903
    return torch.load(path, map_location=device)  # expect: ESP901


def newest(folder):
    files = [os.path.join(folder, f) for f in os.listdir(folder)]
    return max(files, key=os.path.getmtime)
