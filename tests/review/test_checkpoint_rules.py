"""Cases of ESP112 and ESP234: wrapped weights loaded into bare models, and resumes without the optimizer's state."""

from __future__ import annotations

import pytest

WRAPPED = """
    import os
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel as DDP

    def train(args, loader):
        net = nn.Linear(8, 4).cuda()
        model = {made}
        torch.save({saved}, os.path.join(args.out, "best.pt"))

    def export(args):
        model = nn.Linear(8, 4)
        {loaded}
        return model.eval()
    """
MADE = "DDP(net, device_ids=[0])"
PATH = 'os.path.join(args.out, "best.pt")'
WHOLE = f"model.load_state_dict(torch.load({PATH}, weights_only=True))"
KEYED = f"state = torch.load({PATH}, weights_only=True)\n        model.load_state_dict(state['model'])"


@pytest.mark.parametrize("made", [MADE, "nn.DataParallel(net)"])
@pytest.mark.parametrize(
    ("saved", "loaded"), [("model.state_dict()", WHOLE), ("{'model': model.state_dict(), 'epoch': 3}", KEYED)]
)
def test_wrapped_weights_loaded_into_a_bare_model_are_reported(found, made, saved, loaded):
    assert len(found("ESP112", WRAPPED.format(made=made, saved=saved, loaded=loaded))) == 1


@pytest.mark.parametrize(
    ("made", "saved", "loaded"),
    [
        ("net", "model.state_dict()", WHOLE),
        (MADE, "model.module.state_dict()", WHOLE),
        (MADE, "{'model': model.module.state_dict()}", KEYED),
        (MADE, "{'model': model.state_dict(), 'raw': net.state_dict()}", KEYED.replace("'model'", "'raw'")),
        (MADE, "model.state_dict()", WHOLE.replace("best.pt", "other.pt")),
        (MADE, "model.state_dict()", f"model = nn.DataParallel(model)\n        {WHOLE}"),
        (MADE, "{k.removeprefix('module.'): v for k, v in model.state_dict().items()}", WHOLE),
    ],
)
def test_matching_weights_are_not_reported(found, made, saved, loaded):
    assert found("ESP112", WRAPPED.format(made=made, saved=saved, loaded=loaded)) == []


RESUMED = """
    import os
    import torch
    import torch.nn.functional as F

    def restore(path, model):
        state = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        return {returned}

    def train(model, loader, args):
        optimizer = {optimizer}
        start = 0
        if args.resume:
            {resume}
        for epoch in range({rounds}):
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
    """
ADAM = "torch.optim.AdamW(model.parameters())"
LOAD = "ck = torch.load(args.resume, weights_only=True)\n            model.load_state_dict(ck['model'])"


def resumed(resume, returned='state["epoch"] + 1', optimizer=ADAM, rounds="start, args.epochs"):
    return RESUMED.format(resume=resume, returned=returned, optimizer=optimizer, rounds=rounds)


@pytest.mark.parametrize(
    "resume", ["start = restore(args.resume, model)", f"{LOAD}\n            start = ck['epoch'] + 1"]
)
def test_a_resume_without_the_state_of_the_optimizer_is_reported(found, resume):
    assert len(found("ESP234", resumed(resume))) == 1
    assert (
        len(found("ESP234", resumed(resume, optimizer="torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)"))) == 1
    )


def test_a_function_of_the_project_that_loads_weights_alone_is_reported(found):
    source = resumed("start = load_checkpoint(args.resume, model)").replace("def restore", "def load_checkpoint")
    assert len(found("ESP234", source)) == 1
    with_optimizer = source.replace("return state", 'OPT.load_state_dict(state["optim"])\n        return state')
    assert found("ESP234", with_optimizer) == []


@pytest.mark.parametrize(
    "cases",
    [
        {"resume": f"{LOAD}\n            optimizer.load_state_dict(ck['opt'])\n            start = ck['epoch'] + 1"},
        {"resume": LOAD},
        {"resume": "start = restore(args.resume, model)", "rounds": "args.epochs"},
        {"resume": "start = restore(args.resume, model)", "returned": "0"},
        {"resume": "start = restore(args.resume, model)", "optimizer": "torch.optim.SGD(model.parameters(), 0.1)"},
    ],
)
def test_other_loads_are_not_reported(found, cases):
    assert found("ESP234", resumed(**cases)) == []
