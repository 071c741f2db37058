"""Split first, fit the scaler on the training part, and evaluate with weighted averages."""
import numpy as np
import torch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, TensorDataset, random_split


def loaders(x, y, seed=0):
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.2, random_state=seed)
    scaler = StandardScaler().fit(x_train)
    x_train, x_test = scaler.transform(x_train), scaler.transform(x_test)
    full = TensorDataset(torch.as_tensor(x_train).float(), torch.as_tensor(y_train).float())
    train, valid = random_split(full, [0.9, 0.1], generator=torch.Generator().manual_seed(seed))
    test = TensorDataset(torch.as_tensor(x_test).float(), torch.as_tensor(y_test).float())
    return DataLoader(train, 64, shuffle=True), DataLoader(valid, 256), DataLoader(test, 256)


@torch.no_grad()
def evaluate(model, loader):
    was_training = model.training
    model.eval()
    total, count = 0.0, 0
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x).squeeze(-1), y)
        total += loss.item() * len(x)
        count += len(x)
    model.train(was_training)
    return total / count


def refit_for_serving(x):
    return StandardScaler().fit_transform(x)
