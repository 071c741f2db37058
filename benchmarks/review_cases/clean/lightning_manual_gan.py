import pytorch_lightning as pl
import torch
import torch.nn as nn
import torch.nn.functional as F


class LitGAN(pl.LightningModule):
    def __init__(self, latent=64):
        super().__init__()
        self.automatic_optimization = False
        self.latent = latent
        self.G = nn.Sequential(nn.Linear(latent, 256), nn.LeakyReLU(0.2), nn.Linear(256, 784), nn.Tanh())
        self.D = nn.Sequential(nn.Linear(784, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))

    def configure_optimizers(self):
        return torch.optim.Adam(self.G.parameters(), 2e-4), torch.optim.Adam(self.D.parameters(), 2e-4)

    def training_step(self, batch, batch_idx):
        opt_g, opt_d = self.optimizers()
        real = batch[0].flatten(1)
        z = torch.randn(real.size(0), self.latent, device=self.device)
        ones = torch.ones(real.size(0), 1, device=self.device)

        self.toggle_optimizer(opt_g)
        g_loss = F.binary_cross_entropy_with_logits(self.D(self.G(z)), ones)
        opt_g.zero_grad()
        self.manual_backward(g_loss)
        opt_g.step()
        self.untoggle_optimizer(opt_g)

        self.toggle_optimizer(opt_d)
        fake = self.G(z).detach()
        d_loss = F.binary_cross_entropy_with_logits(self.D(real), ones)
        d_loss = d_loss + F.binary_cross_entropy_with_logits(self.D(fake), torch.zeros_like(ones))
        opt_d.zero_grad()
        self.manual_backward(d_loss)
        opt_d.step()
        self.untoggle_optimizer(opt_d)
        self.log_dict({"g": g_loss, "d": d_loss}, prog_bar=True)

    @torch.no_grad()
    def on_train_epoch_end(self):
        z = torch.randn(16, self.latent, device=self.device)
        self.logger.experiment.add_images("samples", self.G(z).view(-1, 1, 28, 28), self.current_epoch)
