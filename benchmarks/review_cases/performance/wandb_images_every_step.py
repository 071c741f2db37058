import torch
import torch.nn.functional as F
import wandb
from torch.utils.data import DataLoader


class Experiment:
    def __init__(self, model, dataset, device="cuda"):
        wandb.init(project="super-resolution")
        self.model, self.device = model.to(device), device
        self.loader = DataLoader(dataset, 16, shuffle=True, num_workers=8, pin_memory=True)
        self.opt = torch.optim.Adam(model.parameters(), 1e-4)

    def fit(self, epochs):
        self.model.train()
        for epoch in range(epochs):
            for step, (lr_img, hr_img) in enumerate(self.loader):
                lr_img = lr_img.to(self.device, non_blocking=True)
                hr_img = hr_img.to(self.device, non_blocking=True)
                sr = self.model(lr_img)
                loss = F.l1_loss(sr, hr_img)
                self.opt.zero_grad(set_to_none=True)
                loss.backward()
                self.opt.step()
                wandb.log({"loss": loss, "sample": wandb.Image(sr[0])})  # expect: ESP411|ESP305
            torch.save(self.model.state_dict(), f"sr_{epoch}.pt")
