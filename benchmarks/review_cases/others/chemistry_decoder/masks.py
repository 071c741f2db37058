import torch


def causal(length):
    """True where a position may not look."""
    return torch.ones(length, length).triu(1).bool()  # expect: ESP104 @mask


def lengths_to_padding(lengths, longest):
    steps = torch.arange(longest, device=lengths.device)
    return steps.unsqueeze(0) >= lengths.unsqueeze(1)
