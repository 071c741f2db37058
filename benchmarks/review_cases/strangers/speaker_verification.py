"""Equal error rate of a speaker encoder started from the public checkpoint."""
import torch
import torch.nn as nn


class SpeakerEncoder(nn.Module):
    def __init__(self, mels=40, hidden=256, dim=256):
        super().__init__()
        self.lstm = nn.LSTM(mels, hidden, num_layers=3, batch_first=True)
        self.linear = nn.Linear(hidden, dim)

    def forward(self, mel):
        _, (h, _) = self.lstm(mel)
        raw = torch.relu(self.linear(h[-1]))
        return raw / raw.norm(dim=1, keepdim=True)  # expect: ESP211


def build(path, device):
    encoder = SpeakerEncoder()
    state = torch.load(path, map_location="cpu", weights_only=True)["model_state"]
    encoder.load_state_dict({k.removeprefix("module."): v for k, v in state.items()}, strict=False)  # expect: ESP203
    return encoder.to(device).eval()


def equal_error_rate(scores, same):
    order = scores.argsort(descending=True)
    same = same[order].float()
    accepted = torch.cumsum(1 - same, 0) / (1 - same).sum().clamp(min=1)
    rejected = 1 - torch.cumsum(same, 0) / same.sum().clamp(min=1)
    at = (accepted - rejected).abs().argmin()
    return ((accepted[at] + rejected[at]) / 2).item()


@torch.inference_mode()
def evaluate(path, trials, device="cuda"):
    encoder = build(path, device)
    scores, same = [], []
    for left, right, label in trials:
        scores.append((encoder(left.to(device)) * encoder(right.to(device))).sum(1))
        same.append(label)
    return equal_error_rate(torch.cat(scores).cpu(), torch.cat(same))
