import csv

import torch
from torch.utils.data import Dataset


class Ratings(Dataset):
    def __init__(self, path):
        with open(path) as handle:
            self.rows = [(int(r["reader"]), int(r["book"]), float(r["stars"])) for r in csv.DictReader(handle)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        reader, book, stars = self.rows[i]
        return reader, book, torch.tensor(stars)
