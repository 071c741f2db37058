"""Train the tabular module."""
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from module import TabularModule


class TabularData(pl.LightningDataModule):
    """Random rows; the label is the sign of the first column."""

    def __init__(self, rows=200, features=6, batch_size=20):
        super().__init__()
        self.rows, self.features, self.batch_size = rows, features, batch_size

    def setup(self, stage=None):
        generator = torch.Generator().manual_seed(0)
        rows = torch.randn(self.rows, self.features, generator=generator)
        labels = (rows[:, 0] > 0).long()
        cut = int(0.8 * self.rows)
        self.train_part = TensorDataset(rows[:cut], labels[:cut])
        self.valid_part = TensorDataset(rows[cut:], labels[cut:])

    def train_dataloader(self):
        return DataLoader(self.train_part, batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.valid_part, batch_size=self.batch_size)


def main():
    pl.seed_everything(0)
    data = TabularData()
    trainer = pl.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(TabularModule(data.features, 2), datamodule=data)


if __name__ == "__main__":
    main()
