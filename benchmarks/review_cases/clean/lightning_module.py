import lightning as L
import torch
import torch.nn.functional as F
import torchmetrics
from torch import nn
from torch.utils.data import DataLoader
from torchvision.models import resnet18


class LitClassifier(L.LightningModule):
    def __init__(self, classes: int = 10, lr: float = 1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.backbone = resnet18(num_classes=classes)
        self.acc = torchmetrics.Accuracy("multiclass", num_classes=classes)
        self.outputs: list[torch.Tensor] = []

    def forward(self, x):
        return self.backbone(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.acc(logits, y)
        self.outputs.append(F.cross_entropy(logits, y))
        self.log("val/acc", self.acc, on_epoch=True)

    def on_validation_epoch_end(self):
        self.log("val/loss", torch.stack(self.outputs).mean())
        self.outputs.clear()

    def predict_step(self, batch, batch_idx):
        return self(batch[0]).softmax(-1)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return [opt], [torch.optim.lr_scheduler.CosineAnnealingLR(opt, 50)]


def main(train_ds, val_ds):
    trainer = L.Trainer(max_epochs=50, accelerator="auto", accumulate_grad_batches=2, gradient_clip_val=1.0)
    trainer.fit(
        LitClassifier(),
        DataLoader(train_ds, 128, shuffle=True, num_workers=8),
        DataLoader(val_ds, 256, num_workers=8),
    )
