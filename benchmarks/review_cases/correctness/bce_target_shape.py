import torch
import torch.nn as nn
import torchvision
from torchvision import transforms
from torch.utils.data import DataLoader


class CatDog(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(32 * 16 * 16, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.classifier(self.features(x))


def train(root, device, epochs=5):
    tf = transforms.Compose([transforms.Resize((64, 64)), transforms.ToTensor()])
    loader = DataLoader(torchvision.datasets.ImageFolder(root, tf), batch_size=32, shuffle=True, num_workers=4)
    model = CatDog().to(device)
    optim = torch.optim.Adam(model.parameters())
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        model.train()
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device), y.float().to(device)
            logits = model(x)
            loss = bce(logits, y)  # expect: ESP105
            optim.zero_grad()
            loss.backward()
            optim.step()
            if not step % 20:
                print(f"{epoch}/{step}: {loss.item():.3f}")


train("data/cats_dogs", torch.device("cuda" if torch.cuda.is_available() else "cpu"))
