import csv
import io

import torch
from torch.utils.data import Dataset

RAW = """text_len,caps,bangs,stars
12,0,1,5
40,3,0,1
33,1,0,3
21,0,0,4
8,5,4,5
17,2,0,2
"""


class ReviewTable(Dataset):
    def __init__(self, handle):
        rows = list(csv.DictReader(handle))
        self.features = torch.tensor([[float(r["text_len"]), float(r["caps"]), float(r["bangs"])] for r in rows])
        self.stars = torch.tensor([int(r["stars"]) for r in rows])

    def __len__(self):
        return len(self.stars)

    def __getitem__(self, i):
        return {"x": self.features[i], "y": self.stars[i]}


def open_reviews():
    return ReviewTable(io.StringIO(RAW))
