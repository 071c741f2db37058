import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision.models import mobilenet_v3_small


def train(dataset, epochs=10, lr=0.05):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = mobilenet_v3_small(num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    loader = DataLoader(dataset, 256, shuffle=True, num_workers=4, pin_memory=True)
    for epoch in range(epochs):
        model.train()
        correct = torch.zeros((), device=device)
        for data, target in loader:
            model = model.to(device)  # expect: ESP402
            data, target = data.to(device), target.to(device)
            output = model(data)
            loss = F.cross_entropy(output, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct += (output.argmax(1) == target).sum()
        print(f"{epoch}: {correct.item() / len(dataset):.3f}")
    return model
