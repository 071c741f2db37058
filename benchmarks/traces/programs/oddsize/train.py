import torch
from config import SETTINGS
from unet import Small

model = Small(SETTINGS["width"])
side = SETTINGS["side"]
print(model(torch.randn(SETTINGS["batch"], 1, side, side)).shape)
