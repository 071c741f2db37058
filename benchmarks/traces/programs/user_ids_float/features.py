"""Build the feature table of the ranking model."""
import csv
import io
import random

import torch

COLUMNS = ("user", "item", "price", "age_days")


def synthetic_csv(rows):
    """Return a CSV text with interactions."""
    random.seed(3)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow((*COLUMNS, "clicked"))
    for _ in range(rows):
        writer.writerow(
            (random.randrange(50), random.randrange(80), round(random.random() * 20, 2), random.randrange(365), random.randrange(2))
        )
    return out.getvalue()


def load_table(text):
    """Return features (rows, columns) and clicks (rows)."""
    rows = list(csv.DictReader(io.StringIO(text)))
    table = torch.tensor([[float(row[name]) for name in COLUMNS] for row in rows])
    clicks = torch.tensor([float(row["clicked"]) for row in rows])
    return table, clicks
