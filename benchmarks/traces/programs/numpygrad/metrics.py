import numpy as np


def correlation(outputs, targets):
    left, right = outputs.numpy(), targets.numpy()
    return float(np.corrcoef(left.ravel(), right.ravel())[0, 1])
