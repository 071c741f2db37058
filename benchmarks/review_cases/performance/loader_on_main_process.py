"""Image classification from JPEG files; decoding happens in the training process."""
from pathlib import Path

import torch
import torch.nn as nn
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.models import resnet18


class Birds(Dataset):
    def __init__(self, root, train=True):
        self.files = sorted(Path(root, "train" if train else "val").glob("*/*.jpg"))
        self.classes = {d: i for i, d in enumerate(sorted({f.parent.name for f in self.files}))}
        self.tf = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ColorJitter(0.2, 0.2), transforms.ToTensor()])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        return self.tf(Image.open(self.files[i]).convert("RGB")), self.classes[self.files[i].parent.name]


def main():
    device = torch.device("cuda")
    train_set = Birds("/data/birds")
    loader = DataLoader(train_set, batch_size=64, shuffle=True)  # expect: ESP406  # allow: ESP413
    model = resnet18(num_classes=len(train_set.classes)).to(device)
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(50):
        model.train()
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
