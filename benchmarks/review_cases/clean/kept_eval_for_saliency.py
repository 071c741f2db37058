import torch
from torch import nn
def saliency(model, images):
    model.eval()
    maps = []
    for image in images:
        image.requires_grad_(True)
        score = model(image[None]).max()
        maps.append(torch.autograd.grad(score, image)[0])
    return maps
