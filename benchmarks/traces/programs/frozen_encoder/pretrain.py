import torch

from contrast import Encoder, Pretraining


def jitter(x, scale=0.1):
    return x + scale * torch.randn_like(x)


def main():
    job = Pretraining(Encoder())
    for _ in range(4):
        x = torch.randn(16, 10)
        print(job.step(jitter(x), jitter(x)))


if __name__ == "__main__":
    main()
