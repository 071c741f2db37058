from torch import nn

from half_service import Service


def network():
    return nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))


if __name__ == "__main__":
    print(Service(network()).predict([[0.1, 0.2, 0.3]]))
