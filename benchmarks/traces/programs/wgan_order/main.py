import torch

from gan import Adversaries


def ring(n):
    angle = torch.rand(n) * 6.2832
    return torch.stack([angle.cos(), angle.sin()], 1)


def main():
    pair = Adversaries()
    for step in range(10):
        d, g = pair.update(ring(64))
        if step % 5 == 0:
            print(step, d, g)


if __name__ == "__main__":
    main()
