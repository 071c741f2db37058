import os
import socket

import torch.distributed as dist


def init():
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29614"
    dist.init_process_group("gloo", rank=0, world_size=1)


blocker = socket.socket()
blocker.bind(("127.0.0.1", 29614))
blocker.listen()
init()
