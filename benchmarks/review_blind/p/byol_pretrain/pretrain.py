import argparse

import torch
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import STL10

from ema import MomentumNet
from nets import Encoder, mlp, regression_loss


class TwoCrops:
    def __init__(self):
        self.tf = T.Compose([
            T.RandomResizedCrop(96, scale=(0.2, 1.0)),
            T.RandomHorizontalFlip(),
            T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
            T.RandomGrayscale(0.2),
            T.ToTensor(),
        ])

    def __call__(self, img):
        return self.tf(img), self.tf(img)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--root", default="data")
    ap.add_argument("--epochs", type=int, default=100)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--out", default="byol.pt")
    args = ap.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    ds = STL10(args.root, split="unlabeled", transform=TwoCrops(), download=True)
    loader = DataLoader(ds, args.batch, shuffle=True, num_workers=8, drop_last=True, pin_memory=True)
    online = Encoder().to(device)
    predictor = mlp(256, 2048, 256).to(device)
    total = args.epochs * len(loader)
    target = MomentumNet(online, 0.996, total)
    params = list(online.parameters()) + list(predictor.parameters())
    opt = torch.optim.AdamW(params, lr=1e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-3, total_steps=total)
    for epoch in range(args.epochs):
        online.train()
        predictor.train()
        run = torch.zeros((), device=device)
        for (a, b), _ in loader:
            a, b = a.to(device, non_blocking=True), b.to(device, non_blocking=True)
            za, zb = target(a), target(b)
            loss = regression_loss(predictor(online(a)), zb) + regression_loss(predictor(online(b)), za)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            target.update(online)
            run += loss.detach()
        print(f"epoch {epoch} loss {run.item() / len(loader):.4f}")
        torch.save(online.backbone.state_dict(), args.out)


if __name__ == "__main__":
    main()
