import torch

from transe import TransE


def main():
    model = TransE(30, 4)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(3):
        model.normalise()
        h, t, bad = (torch.randint(0, 30, (16,)) for _ in range(3))
        r = torch.randint(0, 4, (16,))
        loss = (1.0 + model(h, r, t) - model(h, r, bad)).relu().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
