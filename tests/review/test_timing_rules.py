"""Cases of ESP426: times of work on a GPU that nothing waits for."""

from __future__ import annotations

import pytest

TIMED = """
    import time
    from time import perf_counter
    import torch

    def bench(model, x):
        {moved}
        with torch.no_grad():
            {lines}
    """
CUDA = "model = model.cuda().eval()"
LINES = ("t = time.time()", "y = model(x)", "print(time.time() - t)")


@pytest.mark.parametrize(
    ("moved", "lines"),
    [
        (CUDA, LINES),
        ("model.cuda()", LINES),
        ('device = torch.device("cuda")\n        model.to(device)', LINES),
        ('model = model.to("cuda:0")', ("t = perf_counter()", "model(x)", "return perf_counter() - t")),
        (CUDA, ("t = time.time()", "for _ in range(10): model(x)", "end = time.time()", "return end - t")),
        (CUDA, ("torch.cuda.synchronize()", *LINES)),
    ],
)
def test_a_time_of_handed_out_work_is_reported(found, moved, lines):
    assert len(found("ESP426", TIMED.format(moved=moved, lines="\n            ".join(lines)))) == 1


@pytest.mark.parametrize(
    ("moved", "lines"),
    [
        ("model = model.eval()", LINES),
        ('model = model.to("cpu")', LINES),
        ('model.to("cuda" if torch.cuda.is_available() else "cpu")', LINES),
        (CUDA, (*LINES[:2], "torch.cuda.synchronize()", LINES[2])),
        (CUDA, (LINES[0], "y = model(x).sum().item()", LINES[2])),
        (CUDA, (LINES[0], "y = model(x)", "save(y)", LINES[2])),
        (CUDA, ("y = model(x)", LINES[0], LINES[2])),
    ],
)
def test_work_on_the_host_or_that_is_waited_for_is_not_reported(found, moved, lines):
    assert found("ESP426", TIMED.format(moved=moved, lines="\n            ".join(lines))) == []
