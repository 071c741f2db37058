import torch


def clip_rewards(rewards, low=-1.0, high=1.0):
    if rewards < low or rewards > high:
        rewards = rewards.clamp(low, high)
    return rewards


print(clip_rewards(torch.randn(6)))
