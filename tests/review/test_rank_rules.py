"""Cases of ESP118 and ESP122: collectives on some ranks, and files that every rank writes."""

from __future__ import annotations

import pytest

COLLECTIVE = (
    "import torch\nimport torch.distributed as dist\n\n\ndef evaluate(rank, model, loader, group, args):\n{body}"
)


@pytest.mark.parametrize(
    "body",
    [
        "    if rank == 0:\n        dist.all_reduce(count(model))\n",
        "    if dist.get_rank() == 0:\n        dist.barrier()\n",
        "    if rank != 0:\n        return None\n    dist.all_gather_object([], 1)\n",
        "    if args.local_rank in [-1, 0]:\n        torch.distributed.broadcast(count(model), src=0)\n",
        "    is_main = rank == 0\n    if is_main:\n        print(1)\n        dist.barrier()\n",
    ],
)
def test_a_collective_on_one_rank_is_reported(found, body):
    assert len(found("ESP118", COLLECTIVE.format(body=body))) == 1


@pytest.mark.parametrize(
    "body",
    [
        "    dist.all_reduce(count(model))\n    if rank == 0:\n        print(1)\n",
        "    if rank != 0:\n        dist.barrier()\n    load(model)\n    if rank == 0:\n        dist.barrier()\n",
        "    if rank == 0:\n        dist.broadcast(a, 0)\n    else:\n        dist.broadcast(b, 0)\n",
        "    if rank == 0:\n        dist.all_reduce(count(model), group=group)\n",
        "    if rank == 0:\n        dist.send(count(model), 1)\n",
        "    if dist.is_initialized():\n        dist.barrier()\n",
    ],
)
def test_a_collective_that_all_ranks_reach_is_not_reported(found, body):
    assert found("ESP118", COLLECTIVE.format(body=body)) == []


def test_a_collective_in_a_function_that_one_rank_calls_is_reported(found):
    files = {
        "score.py": "import torch.distributed as dist\n\n\ndef score(model):\n    total = count(model)\n"
        "    dist.all_reduce(total)\n    return total\n",
        "main.py": "from score import score\n\n\ndef main(rank, model):\n"
        "    if rank == 0:\n        print(score(model))\n",
    }
    assert found("ESP118", files) == ["dist.all_reduce(total)"]
    files["main.py"] += "    else:\n        score(model)\n"
    assert found("ESP118", files) == []


SAVE = """
    import io
    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    def main(rank, model, loader, opt, epochs):
        model = DDP(model.to(rank), device_ids=[rank])
        for e in range(epochs):
            for x, y in loader:
                opt.zero_grad()
                model(x.to(rank), y.to(rank)).backward()
                opt.step()
            {save}
    """


@pytest.mark.parametrize(
    "save",
    [
        'torch.save(model.state_dict(), "model.pt")',
        'torch.save({"model": model.module.state_dict(), "epoch": e}, f"model_{e}.pt")',
        'if e % 5 == 0: torch.save(model.module.state_dict(), "model.pt")',
        'torch.save(obj=model.state_dict(), f="model.pt")',
    ],
)
def test_a_save_on_every_rank_is_reported(found, save):
    assert len(found("ESP122", SAVE.format(save=save))) == 1


@pytest.mark.parametrize(
    "save",
    [
        'if rank == 0: torch.save(model.state_dict(), "model.pt")',
        'if dist.get_rank() == 0 and e % 5 == 0: torch.save(model.state_dict(), "model.pt")',
        'local = int(os.environ["LOCAL_RANK"])\n            if local == 0: torch.save(model.state_dict(), "model.pt")',
        'torch.save(model.state_dict(), f"model_{rank}.pt")',
        "torch.save(model.state_dict(), io.BytesIO())",
        "buffer = io.BytesIO(); torch.save(model.state_dict(), buffer)",
    ],
)
def test_a_save_on_one_rank_or_to_its_own_file_is_not_reported(found, save):
    assert found("ESP122", SAVE.format(save=save)) == []


def test_a_save_in_a_helper_is_followed_to_its_caller(found):
    helper = '\n    def keep(model):\n        torch.save(model.state_dict(), "model.pt")\n    '
    assert len(found("ESP122", SAVE.format(save="keep(model)") + helper)) == 1
    assert found("ESP122", SAVE.format(save="if rank == 0: keep(model)") + helper) == []


def test_a_save_of_the_object_that_wraps_the_model_is_reported(found):
    source = """
        import torch
        from torch.nn.parallel import DistributedDataParallel as DDP

        class Trainer:
            def __init__(self, model, gpu):
                self.gpu = gpu
                self.model = DDP(model.to(gpu), device_ids=[gpu])

            def save(self):
                torch.save(self.model.module.state_dict(), "model.pt")

            def fit(self, epochs):
                for epoch in range(epochs):
                    self.epoch(epoch)
                    self.save()
        """
    assert len(found("ESP122", source)) == 1
    limited = source.replace("self.save()", "if self.global_rank == 0: self.save()")
    assert found("ESP122", limited) == []


def test_a_save_of_a_single_process_is_not_reported(found):
    assert found("ESP122", SAVE.format(save='torch.save(model.state_dict(), "m.pt")').replace("DDP(", "id(")) == []


DIVIDED = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, Subset

    class Flow(IterableDataset):
        def __iter__(self):
            yield from []

    def main(rank, world_size, model, data, opt):
        model = {wrap}
        {loader}
        for x, y in loader:
            opt.zero_grad()
            model(x.to(rank), y.to(rank)).backward()
            opt.step()
    """
WRAP = "DDP(model.to(rank), device_ids=[rank])"


@pytest.mark.parametrize(
    "loader",
    [
        "loader = DataLoader(data, batch_size=8, shuffle=True)",
        "loader = DataLoader(dataset=data, batch_size=8)",
        "loader = DataLoader(Subset(data, range(10)), 8, True, num_workers=4)",
        "torch.manual_seed(0)\n        loader = torch.utils.data.DataLoader(data, 8, shuffle=True)",
    ],
)
def test_a_loader_that_no_sampler_divides_is_reported(found, loader):
    assert len(found("ESP123", DIVIDED.format(wrap=WRAP, loader=loader))) == 1


@pytest.mark.parametrize(
    ("wrap", "loader"),
    [
        (WRAP, "loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))"),
        (WRAP, "loader = DataLoader(Subset(data, range(rank, 10, world_size)), batch_size=8)"),
        (WRAP, "loader = DataLoader(Flow(), batch_size=8)"),
        (WRAP, "options = {}\n        loader = DataLoader(data, **options)"),
        ("model.to(rank)", "loader = DataLoader(data, batch_size=8, shuffle=True)"),
        (WRAP, "loader = DataLoader(data, batch_size=8)\n        loader = divide(loader)"),
    ],
)
def test_a_loader_that_is_divided_is_not_reported(found, wrap, loader):
    assert found("ESP123", DIVIDED.format(wrap=wrap, loader=loader)) == []


def test_a_loader_made_in_another_file_is_followed(found):
    files = {
        "data.py": "from torch.utils.data import DataLoader\n\n\ndef make(data):\n"
        "    return DataLoader(data, batch_size=8, shuffle=True)\n",
        "main.py": "from torch.nn.parallel import DistributedDataParallel as DDP\nfrom data import make\n\n\n"
        "def main(rank, model, data, opt):\n    model = DDP(model)\n    loader = make(data)\n    for x in loader:\n"
        "        opt.zero_grad()\n        model(x).mean().backward()\n        opt.step()\n",
    }
    assert found("ESP123", files) == ["return DataLoader(data, batch_size=8, shuffle=True)"]
