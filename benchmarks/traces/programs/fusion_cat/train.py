"""Predict prices from an image vector, a text vector and the age of an item."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Items(Dataset):
    """Synthetic items."""

    def __init__(self, count):
        self.images = torch.randn(count, 3, 16, 16)
        self.words = torch.randint(1, 100, (count, 10))
        self.ages = torch.rand(count) * 10
        self.prices = torch.rand(count) * 100

    def __len__(self):
        return len(self.prices)

    def __getitem__(self, index):
        return {
            "image": self.images[index],
            "words": self.words[index],
            "age": self.ages[index],
            "price": self.prices[index],
        }


class ImageTower(nn.Module):
    """Convolutions with global average pooling."""

    def __init__(self, size):
        super().__init__()
        self.conv = nn.Conv2d(3, size, 3, stride=2, padding=1)

    def forward(self, image):
        return torch.relu(self.conv(image)).mean(dim=(2, 3))


class TextTower(nn.Module):
    """Mean of word embeddings."""

    def __init__(self, vocabulary, size):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocabulary, size)

    def forward(self, words):
        return self.embedding(words)


class AgeTower(nn.Module):
    """Normalized logarithm of the age."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, age):
        return torch.log1p(age) * self.scale


class PriceModel(nn.Module):
    """Joins the three towers."""

    def __init__(self, size=24):
        super().__init__()
        self.image = ImageTower(size)
        self.text = TextTower(100, size)
        self.age = AgeTower()
        self.head = nn.Sequential(nn.Linear(2 * size + 1, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, batch):
        parts = [self.image(batch["image"]), self.text(batch["words"]), self.age(batch["age"])]
        joined = torch.cat(parts, dim=1)
        return self.head(joined).squeeze(1)


def main():
    torch.manual_seed(0)
    loader = DataLoader(Items(64), batch_size=16, shuffle=True)
    model = PriceModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(2):
        for batch in loader:
            optimizer.zero_grad()
            loss = nn.functional.l1_loss(model(batch), batch["price"])
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
