"""ESP408 and ESP410: models called, and samples moved, one by one."""

from __future__ import annotations

import pytest

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(3, 4)
        self.experts = nn.ModuleList([nn.Linear(3, 4) for _ in range(8)])

    def forward(self, x):
"""

PER_SAMPLE = {
    "an axis put before": "for x in batch:\n    out = model(x.unsqueeze(0))\n",
    "by None": "features = [model(image[None]) for image in images]\n",
    "by index": "for i in range(x.size(0)):\n    out = self.net(x[i])\n",
    "by index of a batch": "for i in range(len(batch)):\n    out = model(batch[i].unsqueeze(0))\n",
    "by a slice of one": "for i in range(x.shape[0]):\n    xi = x[i:i + 1].to(device)\n    outs.append(model(xi))\n",
    "enumerated": "for i, image in enumerate(images):\n    y[i] = net(image.unsqueeze(dim=0).cuda())[0]\n",
    "zipped": "for x, y in zip(xs, ys):\n    loss += criterion(model(x.unsqueeze(0)), y.unsqueeze(0))\n",
    "unpacked sizes": (
        "def f(model, x):\n"
        "    B, C, H, W = x.shape\n"
        "    out = []\n"
        "    for b in range(B):\n"
        "        out.append(model(x[b].unsqueeze(0)))\n"
        "    return torch.cat(out)\n"
    ),
    "inside a loop over batches": "for x, y in loader:\n    predictions = [model(s.unsqueeze(0)) for s in x]\n",
    "by the size of a batch": "for j in range(batch_size):\n    p = self.model(images[j].unsqueeze(0))\n",
    "stacked": "out = torch.stack([model(xi) for xi in x])\n",
    "unbound": "out = torch.stack([model(xi) for xi in torch.unbind(x, dim=0)])\n",
    "by keyword": "for image in images:\n    p = model(pixel_values=image[None, ...])\n",
    "with a bar": "for i in tqdm(range(x.size(0))):\n    out = model(x[i].view(1, -1))\n",
    "a named size": "n = images.size(0)\nfor i in range(n):\n    out = model(images[i][None])\n",
    "a layer": NET + "        return torch.stack([self.encoder(x[i]) for i in range(x.size(0))])\n",
    "a layer in a loop": NET
    + "        outs = []\n        for i in range(x.shape[0]):\n"
    + "            outs.append(self.encoder(x[i]))\n        return outs\n",
    "a helper that puts the axis before": (
        "def predict(model, image):\n"
        "    return model(image.unsqueeze(0)).argmax(1)\n"
        "for image in images:\n"
        "    out.append(predict(model, image))\n"
    ),
    "a data set": "for i in range(len(dataset)):\n    x, _ = dataset[i]\n    out[i] = model(x[None].to(device))[0]\n",
    "a data set with labels": "for x, y in test_set:\n    out = model(x.unsqueeze(0))\n",
    "rows of a table": "for row in frame.to_numpy():\n    out = model(torch.from_numpy(row).unsqueeze(0))\n",
    "a part that a function made": (
        "import torch\n"
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.backbone = resnet18()\n"
        "    def forward(self, images):\n"
        "        features = []\n"
        "        for image in images:\n"
        "            features.append(self.backbone(image.unsqueeze(0)))\n"
        "        return torch.cat(features)\n"
    ),
    "by a name in between": (
        "for i in range(batch.shape[0]):\n    sample = batch[i]\n    out = model(sample.unsqueeze(0))\n"
    ),
    "a loss over samples": (
        "for x, y in loader:\n"
        "    loss = 0\n"
        "    for j in range(x.size(0)):\n"
        "        loss = loss + criterion(model(x[j:j + 1]), y[j:j + 1])\n"
        "    loss.backward()\n"
    ),
    "arrays": "for row in rows:\n    out = model(torch.tensor(row).float().unsqueeze(0))\n",
}
AT_ONCE = {
    "a loader": "for x in loader:\n    model(x)\n",
    "a loader by its class": "for x, y in DataLoader(data):\n    model(x.unsqueeze(0))\n",
    "time steps with a state": "for t in range(x.size(0)):\n    h = cell(x[t], h)\n",
    "time steps of the second axis": "for t in range(x.size(1)):\n    h = self.rnn(x[:, t], h)\n",
    "a state by any name": "for i in range(x.size(0)):\n    out, memory = model(x[i], memory)\n",
    "layers": "for layer in layers:\n    x = layer(x)\n",
    "models": "for model in models:\n    out = model(x.unsqueeze(0))\n",
    "nets": "outs = [net(x) for net in nets]\n",
    "scales": "for s in scales:\n    out = model(F.interpolate(x, scale_factor=s))\n",
    "generation": "for i in range(n):\n    t = model(ids.unsqueeze(0)).argmax()\n    ids = torch.cat([ids, t])\n",
    "diffusion": "for t in timesteps:\n    noise = model(x, t[None])\n    x = step(x, noise)\n",
    "views": "out = torch.cat([model(v) for v in views])\n",
    "several inputs": "outs = [model(x) for x in inputs]\n",
    "a gradient for each": "for x in batch:\n    loss = f(model(x.unsqueeze(0)))\n    loss.backward()\n",
    "files": "for p in paths:\n    image = load(p)\n    model(image.unsqueeze(0))\n",
    "files by another name": "for p in items:\n    image = Image.open(p)\n    model(transform(image).unsqueeze(0))\n",
    "lengths": "for i in range(x.size(0)):\n    out = model(x[i, :lengths[i]].unsqueeze(0))\n",
    "parts of a batch": "for i in range(0, len(x), 32):\n    out = model(x[i:i + 32])\n",
    "chunks": "for chunk in x.split(32):\n    out = model(chunk)\n",
    "a list by its annotation": "def f(model, images: list[Tensor]):\n    return [model(i[None]) for i in images]\n",
    "a list by a test": "if isinstance(images, list):\n    out = [model(i[None]) for i in images]\n",
    "feature maps": NET + "        x = [f(y) for y in self.levels]\n        return [self.encoder(t) for t in x]\n",
    "points of each picture": NET
    + (
        "        outs = []\n"
        "        for i in range(x.shape[0]):\n"
        "            points = x[i][self.points[i]]\n"
        "            outs.append(self.encoder(points))\n"
        "        return outs\n"
    ),
    "experts": NET + "        return [expert(x) for expert in self.experts]\n",
}

MOVED = {
    "stacked": "batch = torch.stack([x.to(device) for x in samples])\n",
    "stacked by a name": "parts = [x.cuda() for x in samples]\nbatch = torch.stack(parts)\n",
    "made and moved": "batch = torch.cat([torch.from_numpy(a).to(device) for a in arrays])\n",
    "appended": (
        "for a in arrays:\n"
        "    parts.append(torch.tensor(a, dtype=torch.float32).to(device))\nbatch = torch.stack(parts)\n"
    ),
    "read from a data set": "batch = torch.stack([data[i].to(device) for i in chosen])\n",
    "out of a tensor": "for i in range(x.size(0)):\n    out = f(x[i].to(device))\n",
    "in a data set": (
        "class Pictures(torch.utils.data.Dataset):\n"
        "    def __getitem__(self, i):\n"
        "        return torch.tensor(self.rows[i]).cuda(), self.labels[i]\n"
    ),
    "in a data set, by its device": (
        "from torch.utils.data import Dataset\n"
        "class Pictures(Dataset):\n"
        "    def __getitem__(self, i):\n"
        "        return self.transform(self.rows[i]).to(self.device)\n"
    ),
    "in a data set, made there": (
        "from torch.utils.data import Dataset\n"
        "class Pictures(Dataset):\n"
        "    def __getitem__(self, i):\n"
        "        return torch.tensor(self.rows[i], device='cuda')\n"
    ),
    "in a helper of a data set": (
        "from torch.utils.data import Dataset\n"
        "class Pictures(Dataset):\n"
        "    def read(self, i):\n"
        "        return self.rows[i].to('cuda')\n"
        "    def __getitem__(self, i):\n"
        "        return self.read(i)\n"
    ),
    "in a collate function": "def collate_fn(batch):\n    return [torch.tensor(b).to('cuda') for b in batch]\n",
    "in a collate function that workers run": (
        "from torch.utils.data import DataLoader\n"
        "def join(batch):\n"
        "    return torch.stack(batch)\n"
        "def collate(batch):\n"
        "    return torch.stack(batch).cuda()\n"
        "loader = DataLoader(data, num_workers=4, collate_fn=collate)\n"
    ),
}
TOGETHER = {
    "x and y": "for x, y in loader:\n    x, y = x.to(device), y.to(device)\n",
    "the parts of a batch": "batch = [t.to(device) for t in batch]\n",
    "the parts of a batch as a tuple": "batch = tuple(t.to(device) for t in batch)\n",
    "a dict": "batch = {k: v.to(device) for k, v in batch.items()}\n",
    "a dict in place": "for k in batch:\n    batch[k] = batch[k].to(device)\n",
    "a list in place": "for i in range(len(batch)):\n    batch[i] = batch[i].to(device)\n",
    "pictures of many sizes": "images = [image.to(device) for image in images]\n",
    "their targets": "targets = [{k: v.to(device) for k, v in t.items()} for t in targets]\n",
    "the state of an optimizer": (
        "for state in optimizer.state.values():\n    for k, v in state.items():\n        state[k] = v.cuda()\n"
    ),
    "norms of several devices": "total = torch.stack([norm.to(device) for norm in norms])\n",
    "results of several devices": "out = torch.cat([o.to(device) for o in outputs])\n",
    "the whole": "batch = torch.stack(samples).to(device)\n",
    "a data set that lies there": (
        "class Pictures(torch.utils.data.Dataset):\n"
        "    def __init__(self, rows):\n"
        "        self.rows = rows.to('cuda')\n"
        "    def __getitem__(self, i):\n"
        "        return self.rows[i]\n"
    ),
    "a data set on the host": (
        "class Pictures(torch.utils.data.Dataset):\n"
        "    def __getitem__(self, i):\n"
        "        return self.rows[i].to('cpu').to(torch.float32)\n"
    ),
    "a type": "batch = torch.stack([x.to(torch.float32) for x in samples])\n",
    "a collate function without workers": "def collate(batch):\n    return torch.stack(batch).cuda()\n",
    "where another is": "def collate(batch):\n    return [x.to(y.device) for x, y in batch]\n",
}


@pytest.mark.parametrize("source", PER_SAMPLE.values(), ids=PER_SAMPLE)
def test_models_called_for_one_sample_at_a_time_are_found(found, source):
    assert len(found("ESP408", source)) == 1


@pytest.mark.parametrize("source", AT_ONCE.values(), ids=AT_ONCE)
def test_models_called_in_other_loops_are_left_alone(found, source):
    assert found("ESP408", source) == []


@pytest.mark.parametrize("source", MOVED.values(), ids=MOVED)
def test_samples_moved_one_by_one_are_found(found, source):
    assert len(found("ESP410", f"import torch\n{source}")) == 1


@pytest.mark.parametrize("source", TOGETHER.values(), ids=TOGETHER)
def test_moves_of_whole_batches_and_of_their_parts_are_left_alone(found, source):
    assert found("ESP410", f"import torch\n{source}") == []


SEVERAL_DEVICES = {
    "norms of several devices": """
def total(grads):
    devices = [g.device for g in grads]
    found = [g.norm() for g in grads]
    where = found[0].device
    return torch.stack([n.to(where) for n in found]).norm()
""",
    "what replicas gave": """
def forward(copies, x, device):
    given = [copy(x) for copy in copies]
    return torch.stack([each.to(device) for each in given])
""",
    "what replicas gave, appended": """
def forward(copies, x, device):
    given = []
    for copy in copies:
        y = copy(x)
        given.append(y)
    return torch.stack([each.to(device) for each in given])
""",
    "one chunk for each device": """
def scattered(x, gpus, device):
    sent = [part.to(gpu) for part, gpu in zip(x.chunk(len(gpus)), gpus)]
    return torch.stack([each.to(device) for each in sent])
""",
    "to the first of several devices": """
def joined(pieces, device_ids):
    return torch.stack([piece.cuda(device_ids[0]) for piece in pieces])
""",
    "after an all_gather": """
def joined(x, device):
    held = [torch.empty_like(x) for _ in range(4)]
    torch.distributed.all_gather(held, x)
    return torch.stack([each.to(device) for each in held])
""",
    "where it is elsewhere": """
def joined(pieces, device):
    found = []
    for piece in pieces:
        if piece.device != device:
            piece = piece.to(device)
        found.append(piece)
    return torch.stack(found)
""",
    "results by their name": """
def joined(outputs, device):
    return torch.stack([o.to(device) for o in outputs])
""",
    "a sample for each device": """
def spread(x, devices):
    return [x[i].to(devices[i]) for i in range(x.size(0))]
""",
}
ONE_DEVICE = {
    "samples of a data set": """
def joined(samples, device):
    return torch.stack([each.to(device) for each in samples])
""",
    "pictures that are loaded": """
def joined(paths, device):
    found = []
    for path in paths:
        found.append(load_image(path).to(device))
    return torch.stack(found)
""",
    "arrays": """
def joined(arrays, device):
    return torch.stack([torch.from_numpy(array).to(device) for array in arrays])
""",
    "parts made on the host": """
def joined(sizes, device):
    parts = [torch.zeros(size) for size in sizes]
    return torch.stack([part.to(device) for part in parts])
""",
}


@pytest.mark.parametrize("source", SEVERAL_DEVICES.values(), ids=SEVERAL_DEVICES)
def test_values_that_come_from_several_devices_are_brought_together_one_by_one(found, source):
    assert found("ESP410", f"import torch\n{source}") == []


@pytest.mark.parametrize("source", ONE_DEVICE.values(), ids=ONE_DEVICE)
def test_samples_that_lie_on_the_host_are_moved_one_by_one(found, source):
    assert len(found("ESP410", f"import torch\n{source}")) == 1


@pytest.mark.parametrize(
    ("filling", "count"),
    [
        ("moved.append(picture.to(self.device))", 1),
        ("moved.append(load(picture).to(dev))", 1),
        ("moved.append(model(picture).to(dev))", 0),
        ("moved.append(picture)", 0),
    ],
)
def test_samples_that_get_a_batch_of_their_own_later_are_moved_one_by_one(filling, count, found):
    source = f"""
    import torch

    def embed(self, model, pictures, dev):
        moved, vectors = [], []
        for picture in pictures:
            {filling}
        for each in moved:
            vectors.append(model(each.unsqueeze(0)))
        return torch.cat(vectors)
    """
    assert len(found("ESP410", source)) == count
    assert not found("ESP410", source.replace("torch.cat(vectors)", "vectors"))


def test_texts_that_a_tokenizer_makes_tensors_of_could_be_one_batch(found):
    source = """
    import torch

    def embed(model, tokenizer, texts):
        vectors = []
        for text in texts:
            inputs = tokenizer(text, return_tensors="pt").to("cuda")
            vectors.append(model(**inputs).last_hidden_state.mean(1))
        return torch.cat(vectors)
    """
    assert len(found("ESP408", source)) == 1
    assert not found("ESP408", source.replace("model(**inputs).last_hidden_state", "model.generate(**inputs)"))
    assert not found("ESP408", source.replace(', return_tensors="pt"', "").replace('.to("cuda")', ""))
