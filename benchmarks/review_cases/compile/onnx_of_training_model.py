"""Train a small gesture model, then export it to ONNX."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GestureNet(nn.Module):
    def __init__(self, joints=21, classes=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(joints * 3, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.4), nn.Linear(128, classes)
        )

    def forward(self, x):
        return self.net(x)


def train(model, loader, device, epochs=40):
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    model.train()
    for _ in range(epochs):
        for x, y in loader:
            opt.zero_grad()
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            opt.step()
    return model


def main(loader):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = train(GestureNet().to(device), loader, device).cpu()
    batch = torch.export.Dim("batch")
    torch.onnx.export(  # expect: ESP513
        model,
        (torch.randn(2, 21, 3),),
        "gesture.onnx",
        input_names=["joints"],
        output_names=["logits"],
        dynamic_shapes={"x": {0: batch}},
        dynamo=True,
    )


if __name__ == "__main__":
    from gesture_data import make_loader

    main(make_loader())
