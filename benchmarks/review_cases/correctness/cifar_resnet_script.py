"""Train a small residual network on CIFAR-10."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
import torchvision.transforms as T

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

train_tf = T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor()])
train_set = torchvision.datasets.CIFAR10("./data", train=True, download=True, transform=train_tf)
train_loader = torch.utils.data.DataLoader(train_set, batch_size=128, shuffle=True, num_workers=4, pin_memory=True)


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Identity() if stride == 1 and cin == cout else nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return F.relu(h + self.skip(x))


net = nn.Sequential(
    nn.Conv2d(3, 32, 3, 1, 1), Block(32, 32), Block(32, 64, 2), Block(64, 128, 2),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
).to(device)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=30)

net.train()
for epoch in range(30):
    running = torch.zeros((), device=device)
    for i, (images, labels) in enumerate(train_loader):
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        outputs = net(images)
        loss = criterion(outputs, labels)
        loss.backward()  # expect: ESP101
        opt.step()
        running += loss.detach()
    sched.step()
    print(f"epoch {epoch}: {running.item() / len(train_loader):.4f}")

torch.save(net.state_dict(), "cifar_resnet.pt")
