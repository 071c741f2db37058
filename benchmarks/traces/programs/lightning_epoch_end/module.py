"""Lightning module of a tabular classifier."""
import pytorch_lightning as pl
import torch
from torch import nn


class TabularModule(pl.LightningModule):
    """Two layers with cross entropy."""

    def __init__(self, features, classes, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, classes))

    def forward(self, rows):
        return self.net(rows)

    def training_step(self, batch, batch_index):
        rows, labels = batch
        return nn.functional.cross_entropy(self(rows), labels)

    def validation_step(self, batch, batch_index):
        rows, labels = batch
        logits = self(rows)
        return {"loss": nn.functional.cross_entropy(logits, labels), "hits": (logits.argmax(1) == labels).sum()}

    def validation_epoch_end(self, outputs):
        loss = torch.stack([output["loss"] for output in outputs]).mean()
        hits = torch.stack([output["hits"] for output in outputs]).sum()
        self.log("valid_loss", loss)
        self.log("valid_hits", hits.float())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
