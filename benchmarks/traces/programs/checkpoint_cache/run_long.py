import torch

from rotary import Model


def main():
    model = Model()
    opt = torch.optim.Adam(model.parameters())
    for _ in range(2):
        x = torch.randn(2, 5, 8, requires_grad=True)
        model(x).sum().backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
