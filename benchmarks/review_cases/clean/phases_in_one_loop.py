"""Transfer learning in the shape of the PyTorch tutorial: one loop over two phases."""
import os
import time
from tempfile import TemporaryDirectory

import torch
import torch.nn as nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
TF = {
    "train": transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize(MEAN, STD)]),
    "val": transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(), transforms.Normalize(MEAN, STD)]),
}
sets = {p: datasets.ImageFolder(os.path.join("hymenoptera", p), TF[p]) for p in ("train", "val")}
loaders = {p: DataLoader(sets[p], batch_size=16, shuffle=p == "train", num_workers=4, pin_memory=True) for p in sets}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train_model(model, criterion, optimizer, scheduler, num_epochs=25):
    since = time.time()
    with TemporaryDirectory() as tmp:
        best_path = os.path.join(tmp, "best.pt")
        torch.save(model.state_dict(), best_path)
        best_acc = 0.0
        for epoch in range(num_epochs):
            for phase in ["train", "val"]:
                if phase == "train":
                    model.train()
                else:
                    model.eval()
                running_loss = torch.zeros((), device=device)
                running_corrects = torch.zeros((), device=device)
                for inputs, labels in loaders[phase]:
                    inputs, labels = inputs.to(device), labels.to(device)
                    optimizer.zero_grad()
                    with torch.set_grad_enabled(phase == "train"):
                        outputs = model(inputs)
                        preds = outputs.argmax(1)
                        loss = criterion(outputs, labels)
                        if phase == "train":
                            loss.backward()
                            optimizer.step()
                    running_loss += loss.detach() * inputs.size(0)
                    running_corrects += (preds == labels).sum()
                if phase == "train":
                    scheduler.step()
                epoch_acc = running_corrects.item() / len(sets[phase])
                print(f"{epoch} {phase} loss {running_loss.item() / len(sets[phase]):.4f} acc {epoch_acc:.4f}")
                if phase == "val" and epoch_acc > best_acc:
                    best_acc = epoch_acc
                    torch.save(model.state_dict(), best_path)
        print(f"{time.time() - since:.0f}s, best {best_acc:.4f}")
        model.load_state_dict(torch.load(best_path, weights_only=True))
    return model


net = models.resnet18(weights="IMAGENET1K_V1")
net.fc = nn.Linear(net.fc.in_features, 2)
net = net.to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
train_model(net, nn.CrossEntropyLoss(), opt, lr_scheduler.StepLR(opt, 7, 0.1))
