import torch
import torch.nn as nn
import torch.optim as optim
import torch.utils.data as data
import torchvision
import torchvision.transforms as T

EPOCHS, LR = 8, 0.01

train_data = torchvision.datasets.FashionMNIST("./fmnist", train=True, download=True, transform=T.ToTensor())
train_iter = data.DataLoader(train_data, batch_size=256, shuffle=True, num_workers=4)

net = nn.Sequential(
    nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2),
    nn.Conv2d(6, 16, 5), nn.Sigmoid(), nn.AvgPool2d(2),
    nn.Flatten(),
    nn.Linear(16 * 5 * 5, 120), nn.Sigmoid(),
    nn.Linear(120, 84), nn.Sigmoid(),
    nn.Linear(84, 10), nn.Softmax(dim=1),
)


def init(m):
    if type(m) in (nn.Linear, nn.Conv2d):
        nn.init.xavier_uniform_(m.weight)


net.apply(init)
ce = nn.CrossEntropyLoss()
trainer = optim.SGD(net.parameters(), lr=LR)
for epoch in range(EPOCHS):
    net.train()
    for X, y in train_iter:
        trainer.zero_grad()
        l = ce(net(X), y)  # expect: ESP201
        l.backward()
        trainer.step()
    print(f"epoch {epoch} loss {l.item():.3f}")
