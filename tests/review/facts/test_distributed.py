"""Tests of the queries about distributed training: what each rank reads, writes, waits for and wraps."""

from __future__ import annotations

from textwrap import dedent

import pytest

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

SUBJECT = InspectionSubject(("distributed training",))
START = "import torch\nimport torch.distributed as dist\nfrom torch.utils.data import DataLoader, DistributedSampler\n"


def facts(query, body, start=START):
    done = inspect_sources({"train.py": start + dedent(body)}, SUBJECT, names=[query])
    assert not done.results[0].problem
    return done.results[0].facts


def texts(query, body, *assessments):
    wanted = assessments or (Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK)
    return [fact.text for fact in facts(query, body) if fact.assessment in wanted]


LOOP = """
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for x in loader:
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
"""


def training(line):
    return f"def fit(model, data, optimizer, args):\n    dist.init_process_group('nccl')\n{line}{LOOP}"


def test_a_shuffling_loader_without_a_sampler_must_change():
    found = facts("rank-samples", training("    loader = DataLoader(data, shuffle=True)"))
    assert [(each.assessment, each.line) for each in found] == [(Assessment.MUST_CHANGE, 6)]


@pytest.mark.parametrize(
    "line",
    [
        "    loader = DataLoader(data, sampler=DistributedSampler(data))",
        (
            "    sampler = DistributedSampler(data) if args.distributed else None\n"
            "    loader = DataLoader(data, shuffle=sampler is None, sampler=sampler)"
        ),
        (
            "    if args.distributed:\n        sampler = DistributedSampler(data)\n    else:\n        sampler = None\n"
            "    loader = DataLoader(data, sampler=sampler)"
        ),
        (
            "    if args.world_size > 1:\n        loader = DataLoader(data, sampler=DistributedSampler(data))\n"
            "    else:\n        loader = DataLoader(data, shuffle=True)"
        ),
        "    data = data.shard(dist.get_world_size(), dist.get_rank())\n    loader = DataLoader(data, shuffle=True)",
    ],
)
def test_a_loader_that_divides_its_data_or_serves_one_process_is_not_reported(line):
    assert not texts("rank-samples", training(line))


def test_a_split_without_a_seed_must_change_and_one_with_a_generator_is_not_reported():
    split = (
        "    data, held = torch.utils.data.random_split(data, [8, 2]{})\n    loader = DataLoader(data, sampler=args.s)"
    )
    assert any("splits" in text or "split" in text for text in texts("rank-samples", training(split.format(""))))
    seeded = split.format(", generator=torch.Generator().manual_seed(0)")
    assert not texts("rank-samples", training(seeded), Assessment.MUST_CHANGE)


def test_a_fixed_device_must_change_unless_only_one_process_runs_it():
    assert texts("rank-devices", training("    model.to('cuda:0')"), Assessment.MUST_CHANGE)
    assert not texts("rank-devices", training("    if not dist.is_initialized():\n        model.to('cuda:0')"))
    assert not texts("rank-devices", training("    torch.cuda.set_device(args.local_rank)\n    model.cuda()"))


def test_moves_to_the_current_device_are_counted_in_one_fact():
    found = texts("rank-devices", training("    model.cuda()\n    data.cuda()"))
    assert len(found) == 1
    assert "1 further line" in found[0]


@pytest.mark.parametrize(
    "line",
    [
        "    if dist.get_rank() == 0:\n        dist.barrier()",
        "    if dist.get_rank() != 0:\n        return\n    dist.all_reduce(data)",
        "    is_first = args.rank == 0\n    if is_first:\n        dist.broadcast(data, 0)",
    ],
)
def test_a_collective_that_one_rank_reaches_alone_must_change(line):
    assert texts("rank-collectives", training(line), Assessment.MUST_CHANGE)


@pytest.mark.parametrize(
    "line",
    [
        "    if args.rank != 0:\n        dist.barrier()\n    data.x()\n    if args.rank == 0:\n        dist.barrier()",
        "    if args.local_rank != -1:\n        dist.barrier()",
        "    if dist.get_rank() == 0:\n        dist.send(data, 1)",
        "    if dist.get_rank() in args.members:\n        dist.all_reduce(data, group=args.group)",
        "    if dist.is_initialized():\n        dist.barrier()",
    ],
)
def test_a_collective_that_all_its_ranks_reach_is_not_reported(line):
    assert not texts("rank-collectives", training(line))


def test_a_checkpoint_of_every_rank_should_be_checked_and_one_of_a_rank_is_fine():
    save = "torch.save(model.state_dict(), 'model.pt')"
    assert texts("rank-output", training(f"    {save}"), Assessment.SHOULD_CHECK)
    assert texts("rank-output", training(f"    if args.rank == 0:\n        {save}"), Assessment.FINE)
    helper = f"def save(model):\n    {save}\n\n\n" + training("    if args.rank in (-1, 0):\n        save(model)")
    assert texts("rank-output", helper, Assessment.FINE)


MODEL = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used = torch.nn.Linear(8, 8)
        self.left = torch.nn.Linear(8, 8)
        self.width = 8

    def forward(self, x):
        return self.used(x).sum()

    def report(self):
        return self.width


def fit(loader):
    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        model(x).backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_a_layer_that_nothing_runs_must_change():
    found = texts("wrapped-model", MODEL, Assessment.MUST_CHANGE)
    assert found == ["nothing runs `self.left`, so it gets no gradient: DDP raises in the second step"]


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("    model.report()", 1),
        ("    print(model.width)", 1),
        ("    model.module.report()", 0),
        ("    model.eval()", 0),
        ("    model.module.report() if hasattr(model, 'module') else model.report()", 0),
    ],
)
def test_an_attribute_that_the_wrapper_does_not_have_must_change(line, count):
    used = MODEL.replace("self.used(x).sum()", "self.left(self.used(x)).sum()")
    assert len(texts("wrapped-model", f"{used}{line}\n", Assessment.MUST_CHANGE)) == count


def test_single_process_code_is_told_where_to_wrap_its_model():
    alone = MODEL.replace('    dist.init_process_group("nccl")\n', "").replace(
        "torch.nn.parallel.DistributedDataParallel(Net())", "Net()"
    )
    found = facts("wrapped-model", alone)
    assert any("not wrapped" in each.text and "torchrun" in each.remedy for each in found)


def test_a_model_that_is_taken_out_of_its_wrapper_is_not_said_to_have_none():
    body = (
        "def save(model, path):\n    torch.save({saved}.state_dict(), path)\n\n\n"
        "def train(model, loader, optimizer):\n    for x in loader:\n        model(x).backward()\n"
        "        optimizer.step()\n    save(model, 'a.pt')\n"
    )
    assert any("nothing wraps" in text for text in texts("wrapped-model", body.format(saved="model")))
    assert not texts("wrapped-model", body.format(saved="model.module"))
    (fact,) = facts("wrapped-model", body.format(saved="model.module"))
    assert fact.text.startswith("`model.module` is the module in a wrapper")


def test_code_of_a_framework_is_left_to_it():
    start = START + "from accelerate import Accelerator\n"
    body = training("    loader = DataLoader(data, shuffle=True)\n    model.to('cuda:0')")
    for query in ("rank-samples", "rank-devices", "wrapped-model"):
        assert not [fact for fact in facts(query, body, start) if fact.assessment is Assessment.MUST_CHANGE]


def test_models_in_a_list_are_inspected_like_others():
    body = (
        "def fit(nets, loader):\n    for x in loader:\n        made = torch.optim.SGD(nets[0].parameters(), lr=0.1)\n"
        "        nets[0](x).backward()\n        made.step()\n"
    )
    assert any("`nets[0]` is not wrapped" in text for text in texts("wrapped-model", body))


GATHER = (
    "def gather(x):\n    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]\n"
    "    dist.all_gather(parts, x)\n{own}    return torch.cat(parts)\n\n\ndef loss(x):\n    return gather(x).mean()\n"
)


def test_a_gathering_is_told_by_its_missing_gradient_its_callers_and_the_shapes_that_it_assumes():
    gradient, shapes = texts("gathered-tensors", GATHER.format(own=""))
    assert "has no gradient" in gradient
    assert "`gather` is called at train.py:11" in gradient
    assert "takes buffers like `x` of this rank (line 5)" in shapes


def test_the_part_of_the_own_rank_that_keeps_its_gradient_is_told():
    gradient, _ = texts("gathered-tensors", GATHER.format(own="    parts[dist.get_rank()] = x\n"))
    assert "its own part is put in with its gradient (line 7)" in gradient


def test_a_gathering_in_an_autograd_function_with_a_backward_has_its_gradient():
    body = (
        "class Gather(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        parts = [torch.zeros(3) for _ in range(4)]\n        dist.all_gather(parts, x)\n"
        "        return tuple(parts)\n\n    @staticmethod\n    def backward(ctx, *grads):\n        return grads[0]\n"
    )
    assert not texts("gathered-tensors", body)
    (fine,) = texts("gathered-tensors", body, Assessment.FINE)
    assert "by the `backward` of `Gather` (line 12)" in fine


def test_a_gathering_after_the_sizes_were_exchanged_assumes_no_shape():
    body = GATHER.format(own="").replace("    parts =", "    sizes = exchange(x.shape)\n    parts =")
    assert all("takes buffers like" not in text for text in texts("gathered-tensors", body))


@pytest.mark.parametrize(
    ("made", "assessment"),
    [
        ("Contrast(0.1)", Assessment.SHOULD_CHECK),
        ("Contrast(**settings)", Assessment.OPEN),
        ("Contrast(0.1, gather_distributed=True)", None),
    ],
)
def test_a_loss_that_is_not_told_to_gather_is_found_by_its_default(made, assessment):
    body = (
        "class Contrast(torch.nn.Module):\n    def __init__(self, temperature=1.0, gather_distributed=False):\n"
        f"        self.gather = gather_distributed\n\n\ndef main(settings):\n    return {made}\n"
    )
    found = [fact.assessment for fact in facts("gathered-tensors", body)]
    assert found == ([assessment] if assessment else [])


def test_a_trainer_of_lightning_gives_the_loaders_their_sampler_unless_it_is_told_not_to():
    body = "def main(model):\n    trainer = L.Trainer(devices=4)\n    trainer.fit(model)\n"
    start = "import lightning as L\n"
    (fact,) = facts("rank-samples", body, start)
    assert (fact.assessment, "calls its `set_epoch`" in fact.text) == (Assessment.FINE, True)
    assert not facts("rank-samples", body.replace("devices=4", "use_distributed_sampler=False"), start)
