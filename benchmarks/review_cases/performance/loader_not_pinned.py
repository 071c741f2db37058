import torch
import torchvision
import torchvision.transforms.v2 as T
from torch.utils.data import DataLoader


def build(root, batch_size, train):
    tf = T.Compose([T.ToImage(), T.RandomHorizontalFlip(), T.RandomCrop(32, 4), T.ToDtype(torch.float32, scale=True)])
    ds = torchvision.datasets.CIFAR100(root, train=train, transform=tf, download=True)
    return DataLoader(ds, batch_size=batch_size, shuffle=train, num_workers=12, persistent_workers=True)  # expect: ESP413


def train(root="./data", epochs=200):
    loader = build(root, 1024, True)
    model = torch.compile(torchvision.models.resnet34(num_classes=100).cuda().to(memory_format=torch.channels_last))
    opt = torch.optim.SGD(model.parameters(), 0.5, momentum=0.9, nesterov=True, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.5, epochs=epochs, steps_per_epoch=len(loader))
    model.train()
    for _ in range(epochs):
        for images, labels in loader:
            images = images.cuda(non_blocking=True).to(memory_format=torch.channels_last)
            labels = labels.cuda(non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(model(images), labels)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
    return model


if __name__ == "__main__":
    train()
