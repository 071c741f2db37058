"""Neural style transfer: the image is the parameter, L-BFGS the optimizer."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import VGG19_Weights, vgg19

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
cnn = vgg19(weights=VGG19_Weights.DEFAULT).features.to(device).eval()
cnn.requires_grad_(False)
MEAN = torch.tensor([0.485, 0.456, 0.406], device=device).view(-1, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225], device=device).view(-1, 1, 1)
CONTENT, STYLE = {21}, {0, 5, 10, 19, 28}


def features(img):
    x = (img - MEAN) / STD
    content, style = [], []
    for i, layer in enumerate(cnn):
        x = F.relu(x) if isinstance(layer, nn.ReLU) else layer(x)
        if i in CONTENT:
            content.append(x)
        if i in STYLE:
            style.append(gram(x))
    return content, style


def gram(x):
    b, c, h, w = x.shape
    f = x.reshape(b * c, h * w)
    return f @ f.t() / (b * c * h * w)


def transfer(content_img, style_img, steps=300, style_weight=1e6):
    with torch.no_grad():
        content_targets, _ = features(content_img)
        _, style_targets = features(style_img)
    img = content_img.clone().requires_grad_(True)
    optimizer = torch.optim.LBFGS([img])
    done = [0]
    while done[0] <= steps:

        def closure():
            with torch.no_grad():
                img.clamp_(0, 1)
            optimizer.zero_grad()
            content, style = features(img)
            c = sum(F.mse_loss(a, b) for a, b in zip(content, content_targets))
            s = sum(F.mse_loss(a, b) for a, b in zip(style, style_targets))
            loss = c + style_weight * s
            loss.backward()
            done[0] += 1
            if done[0] % 50 == 0:
                print(done[0], c.item(), s.item())
            return loss

        optimizer.step(closure)
    return img.detach().clamp(0, 1)
