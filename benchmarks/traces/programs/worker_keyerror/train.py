from dataset import Animals
from torch.utils.data import DataLoader


def main():
    ds = Animals(["cat", "dog", "Cat", "dog"] * 4)
    for epoch in range(2):
        for images, labels in DataLoader(ds, batch_size=4, num_workers=2):
            print(epoch, images.shape, labels)


if __name__ == "__main__":
    main()
