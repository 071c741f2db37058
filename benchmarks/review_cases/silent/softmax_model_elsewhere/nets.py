from torch import nn

NORMS = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}


def classifier(n_features, n_classes, width=256, depth=3, norm="batch", dropout=0.2):
    """A plain MLP classifier over tabular features."""
    layers = []
    last = n_features
    for _ in range(depth):
        layers += [nn.Linear(last, width), NORMS[norm](width), nn.ReLU(), nn.Dropout(dropout)]
        last = width
    return nn.Sequential(*layers, nn.Linear(last, n_classes), nn.Softmax(dim=-1))
