"""Age from faces."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import models, transforms
from PIL import Image
import pandas as pd


class Faces(Dataset):
    def __init__(self, csv, root):
        self.frame, self.root = pd.read_csv(csv), root
        self.tf = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor()])

    def __len__(self):
        return len(self.frame)

    def __getitem__(self, idx):
        row = self.frame.iloc[idx]
        image = self.tf(Image.open(f"{self.root}/{row.file}").convert("RGB"))
        return {"image": image, "age": torch.tensor(row.age, dtype=torch.float32)}


class AgeNet(nn.Module):
    def __init__(self):
        super().__init__()
        base = models.resnet50(weights=models.ResNet50_Weights.DEFAULT)
        self.body = nn.Sequential(*list(base.children())[:-1], nn.Flatten())
        self.head = nn.Sequential(nn.Linear(2048, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 1))

    def forward(self, image):
        return self.head(self.body(image))


def main():
    device = torch.device("cuda")
    loader = DataLoader(Faces("faces.csv", "faces"), batch_size=64, shuffle=True, num_workers=8, pin_memory=True)
    net = AgeNet().to(device)
    criterion = nn.L1Loss()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    net.train()
    for epoch in range(10):
        for i, sample in enumerate(loader):
            image = sample["image"].to(device, non_blocking=True)
            age = sample["age"].to(device, non_blocking=True)
            predicted = net(image)
            loss = criterion(input=predicted, target=age)  # expect: ESP105
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 100 == 0:
                print(f"[{epoch}, {i}] {loss.item():.3f}")


if __name__ == "__main__":
    main()
