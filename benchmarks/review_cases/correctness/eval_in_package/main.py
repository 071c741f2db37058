import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.models import resnet18

from engine import Evaluator, Trainer


def loaders(root):
    tf = transforms.Compose([transforms.Resize(72), transforms.CenterCrop(64), transforms.ToTensor()])
    train, val = datasets.ImageFolder(f"{root}/train", tf), datasets.ImageFolder(f"{root}/val", tf)
    return DataLoader(train, 128, shuffle=True, num_workers=8, pin_memory=True), DataLoader(val, 256, num_workers=8, pin_memory=True)


def main():
    device = torch.device("cuda")
    train, val = loaders("tiny-imagenet")
    Trainer(resnet18(num_classes=200), train, Evaluator(val, device), device).fit(90)


if __name__ == "__main__":
    main()
