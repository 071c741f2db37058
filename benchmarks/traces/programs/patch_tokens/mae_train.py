import torch
import torch.nn.functional as F

from patches import TinyMAE


def main(steps=2):
    model = TinyMAE()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        image = torch.rand(4, 3, 32, 32)
        loss = F.mse_loss(model(image), image)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
