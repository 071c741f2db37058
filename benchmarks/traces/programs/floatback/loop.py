def accumulate(model, criterion, batches):
    total = 0.0
    for rows, targets in batches:
        total += criterion(model(rows), targets).item()
    return total / len(batches)
