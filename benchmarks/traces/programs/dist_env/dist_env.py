import torch
import torch.distributed as dist
from torch import nn


def main():
    dist.init_process_group(backend="gloo")
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    print(model(torch.randn(1, 2)))


if __name__ == "__main__":
    main()
