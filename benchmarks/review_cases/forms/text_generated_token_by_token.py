import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


def generate(model, tokens, length):
    for _ in range(length):
        logits = model(tokens)[:, -1]  # expect: ESP302 @a
        tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], 1)
    return tokens


def main(prompts):
    model = Net()
    model.load_state_dict(torch.load("lm.pt", weights_only=True))
    model.eval()
    for prompt in prompts:
        print(generate(model, prompt, 20))  # expect: ESP302 @a
