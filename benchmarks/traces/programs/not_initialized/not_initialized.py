import torch
import torch.distributed as dist


def log_metrics(loss):
    if dist.get_rank() == 0:
        print("loss", loss)


log_metrics(torch.tensor(1.0))
