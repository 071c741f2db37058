"""The loader before the token files."""

import pickle


def load(path):
    with open(path, "rb") as handle:
        return pickle.load(handle)
