import tempfile
from pathlib import Path

import torch
import yaml
from net import Net

HERE = Path(__file__).parent


def read(name):
    return yaml.safe_load((HERE / name).read_text())


def pretrain(path):
    net = Net(**read("pretrain.yaml"))
    torch.save(net.state_dict(), path)


def finetune(path):
    net = Net(**read("finetune.yaml"))
    net.load_state_dict(torch.load(path))
    return net


with tempfile.TemporaryDirectory() as folder:
    pretrain(f"{folder}/net.pt")
    finetune(f"{folder}/net.pt")
