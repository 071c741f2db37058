import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


from concurrent.futures import ThreadPoolExecutor


def predict_all(paths, images):
    model = Net()
    model.load_state_dict(torch.load(paths[0], weights_only=True))
    model.eval()

    @torch.no_grad()
    def predict(image):
        return model(image[None]).argmax(1).item()

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(predict, images))
