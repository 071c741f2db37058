"""Too much to hold at once is reviewed in parts, and the report says so."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from esper_agents.review import engine, parts
from esper_agents.review.engine import Progress, ReviewReport, review

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LOOP = """\
import torch

for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss)
"""
FOUND = ["ESP101", "ESP301"]


def rules_found(report: ReviewReport) -> list[str]:
    return [claim.rule for claim in report.claims]


def split(monkeypatch: pytest.MonkeyPatch, most_bytes: int) -> None:
    monkeypatch.setattr(engine, "divide", partial(parts.divide, most_bytes=most_bytes))


def write(root: Path, **sources: str) -> None:
    for name, text in sources.items():
        file = root / (name.replace("__", "/") + ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_too_much_at_once_is_reviewed_in_parts_that_are_named(tmp_path, monkeypatch):
    write(tmp_path, a__one=LOOP, a__two=LOOP, b__one=LOOP, c=LOOP)
    whole = review(tmp_path, [tmp_path])
    assert whole.parts == ()
    split(monkeypatch, 2 * len(LOOP))
    divided = review(tmp_path, [tmp_path])
    assert divided.parts == ("a", "b, c.py")
    assert divided.claims == whole.claims
    assert divided.examined == whole.examined
    assert divided.lines == whole.lines


def test_what_uses_torch_stays_together_with_what_it_uses_and_what_uses_it(tmp_path, monkeypatch):
    filler = "x = 1\n" * 100
    write(
        tmp_path,
        app__train="from app.sub import steps\nfrom lib.data import batches\n" + LOOP.replace("import torch\n", ""),
        app__sub__steps="import torch\nfrom ..nets import Net\n",
        app__nets="from .sizes import WIDTH\n",
        app__sizes="WIDTH = 8\n",
        lib__data="def batches(): ...\n",
        lib__other=filler,
        web__views=filler,
    )
    split(monkeypatch, 1000)
    first, *rest = parts.divide(engine.discover(tmp_path, [tmp_path]), 1000)
    assert first.name == "what uses torch"
    assert [candidate.path for candidate in first.candidates] == [
        "app/nets.py",
        "app/sizes.py",
        "app/sub/steps.py",
        "app/train.py",
        "lib/data.py",
    ]
    assert [each.name for each in rest] == ["lib", "web"]
    assert rules_found(review(tmp_path, [tmp_path])) == FOUND


def test_a_folder_that_is_too_large_is_divided_by_what_is_in_it(tmp_path):
    write(tmp_path, p__a__x=LOOP, p__a__y=LOOP, p__b__x=LOOP, p__z=LOOP)
    divided = parts.divide(engine.discover(tmp_path, [tmp_path]), 2 * len(LOOP))
    assert [each.name for each in divided] == ["p/a", "p/b, p/z.py"]
    alone = parts.divide(engine.discover(tmp_path, [tmp_path]), 1)
    assert [len(each.candidates) for each in alone] == [1, 1, 1, 1]


def test_progress_is_told_for_every_file_and_part(tmp_path, monkeypatch):
    write(tmp_path, a=LOOP, b=LOOP)
    split(monkeypatch, len(LOOP))
    told: list[Progress] = []
    review(tmp_path, [tmp_path], on_progress=told.append)
    assert [(each.doing, each.done, each.total, each.path) for each in told] == [
        ("reading", 0, 2, "a.py"),
        ("judging", 0, 2, "a.py"),
        ("reading", 1, 2, "b.py"),
        ("judging", 1, 2, "b.py"),
    ]
