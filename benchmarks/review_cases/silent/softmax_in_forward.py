"""Leaf disease classifier; the network ends in a softmax."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class LeafNet(nn.Module):
    def __init__(self, num_classes: int):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.4)
        self.fc1 = nn.Linear(64 * 32 * 32, 128)
        self.fc2 = nn.Linear(128, num_classes)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        x = self.drop(F.relu(self.fc1(x)))
        return F.softmax(self.fc2(x), dim=1)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tf = transforms.Compose([transforms.Resize((128, 128)), transforms.ToTensor()])
    train_set = datasets.ImageFolder("leaves/train", tf)
    loader = DataLoader(train_set, batch_size=64, shuffle=True, num_workers=4, pin_memory=True)
    model = LeafNet(len(train_set.classes)).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model.train()
    for epoch in range(10):
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            probs = model(images)
            loss = criterion(probs, labels)  # expect: ESP201
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"Epoch {epoch + 1}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
