import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, random_split


class Admissions(L.LightningDataModule):
    def __init__(self, dataset, batch_size=512):
        super().__init__()
        self.dataset, self.batch_size = dataset, batch_size

    def setup(self, stage=None):
        self.train_set, self.val_set = random_split(self.dataset, [0.9, 0.1], torch.Generator().manual_seed(3))

    def train_dataloader(self):
        return DataLoader(self.train_set, self.batch_size, shuffle=True, num_workers=4, pin_memory=True)

    def val_dataloader(self):
        return DataLoader(self.val_set, self.batch_size, num_workers=4, pin_memory=True)


class Readmission(L.LightningModule):
    def __init__(self, codes, bands=3, dim=64, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.codes = nn.EmbeddingBag(codes, dim, mode="sum", padding_idx=0)
        self.mlp = nn.Sequential(
            nn.Linear(dim, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, bands), nn.Softmax(dim=1)  # expect: ESP201 @twice
        )
        self.criterion = nn.CrossEntropyLoss()
        self.losses = []

    def forward(self, codes):
        return self.mlp(self.codes(codes))

    def training_step(self, batch, batch_idx):
        codes, band = batch
        loss = self.criterion(self(codes), band)  # expect: ESP201 @twice
        self.losses.append(loss)  # expect: ESP301
        return loss

    def on_train_epoch_end(self):
        self.log("train_loss", torch.stack(self.losses).mean())
        self.losses.clear()

    def validation_step(self, batch, batch_idx):
        codes, band = batch
        self.log("val_acc", (self(codes).argmax(1) == band).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    data = torch.load("admissions.pt", weights_only=True)
    dataset = torch.utils.data.TensorDataset(data["codes"], data["band"])
    L.Trainer(max_epochs=20).fit(Readmission(int(data["codes"].max()) + 1), Admissions(dataset))
