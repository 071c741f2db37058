import torch


def to_device(batch):
    return {k: v.to("cuda:0") for k, v in batch.items()}


to_device({"x": torch.zeros(3)})
