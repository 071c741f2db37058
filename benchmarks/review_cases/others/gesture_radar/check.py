import torch


def macro_recall(net, loader, classes):
    net.eval()
    confusion = torch.zeros(classes, classes, dtype=torch.long)
    with torch.no_grad():
        for cube, gesture in loader:
            guess = net(cube).argmax(dim=1)
            confusion += torch.bincount(gesture * classes + guess, minlength=classes**2).view(classes, classes)
    per_class = confusion.diag() / confusion.sum(1).clamp(min=1)
    return per_class.mean().item()  # expect: ESP103 @mode
