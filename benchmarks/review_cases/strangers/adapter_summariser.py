"""Adds a low-rank adapter to a published summariser and goes on training it."""
import torch
import torch.nn as nn
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer


class LowRank(nn.Module):
    def __init__(self, linear, rank=8, alpha=16):
        super().__init__()
        self.linear, self.scale = linear, alpha / rank
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.linear(x) + self.scale * self.up(self.down(x))


def adapt(model, names=("q_proj", "v_proj")):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in names and isinstance(child, nn.Linear):
                setattr(module, name, LowRank(child))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".up." in name or ".down." in name)
    return model


def resume(path, checkpoint, device="cuda"):
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint, trust_remote_code=True)  # expect: ESP902
    model = adapt(model)
    adapter = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(adapter, strict=False)  # expect: ESP203
    return model.to(device), tokenizer


def save(model, path):
    torch.save({k: v.cpu() for k, v in model.state_dict().items() if ".up." in k or ".down." in k}, path)
