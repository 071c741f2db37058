import torch


def encode(batch, vocab):
    return torch.tensor([[vocab.get(t, 0) for t in s.split()] for s in batch])


print(encode(["a b c", "a b"], {"a": 1, "b": 2, "c": 3}))
