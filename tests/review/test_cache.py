"""Kept reports: equal to the byte, never for anything else, never from where others may write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from esper_agents.domain.finding import Category
from esper_agents.review import catalogue as rules
from esper_agents.review import engine
from esper_agents.review.cache import Cache
from esper_agents.review.engine import ReviewReport, review

LOOP = """\
import torch

for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss)
    total += loss.item()  # esper: ignore[ESP305] the value steers the loop
"""


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    (folder / "train.py").write_text(LOOP)
    (folder / "pkg" / "broken.py").write_bytes(b"\x00\x01")
    os.mkfifo(folder / "pkg" / "pipe.py")
    (folder / "pkg" / "größe.py").write_text("name = 'größe'\n")
    (folder / "pkg" / "made.py").write_text("# @generated\nx = 1\n")
    return folder


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "home" / "review")


@pytest.fixture
def judged(monkeypatch):
    """Return the list of how many files were judged, run by run."""
    runs: list[int] = []
    judge = engine.judge

    def counting(files, *arguments, **options):
        runs.append(len(files))
        return judge(files, *arguments, **options)

    monkeypatch.setattr(engine, "judge", counting)
    return runs


def entries(cache: Cache) -> list[Path]:
    return sorted(cache.folder.iterdir())


def test_a_kept_report_is_the_report(project, cache, judged):
    first = review(project, [project], cache=cache)
    again = review(project, [project], cache=cache)
    assert repr(again) == repr(first) == repr(review(project, [project]))
    assert again == first
    assert first.claims
    assert [each.path for each in first.unreadable] == ["pkg/broken.py", "pkg/pipe.py"]
    assert first.generated
    assert first.silenced
    assert len(judged) == 2


def test_what_the_report_follows_from_makes_another_one(project, cache, judged, monkeypatch):
    def runs_after(change: object = None, **options: object) -> int:
        before = len(judged)
        review(project, [project], cache=cache, **options)  # type: ignore[arg-type]
        review(project, [project], cache=cache, **options)  # type: ignore[arg-type]
        return len(judged) - before

    assert runs_after() == 1
    assert runs_after((project / "train.py").write_text(LOOP + "\n")) == 1
    assert runs_after((project / "train.py").rename(project / "other.py")) == 1
    assert runs_after((project / "new.py").write_text("")) == 1
    assert runs_after((project / "pyproject.toml").write_text("[project]\ndependencies = ['torch>=2.4']\n")) == 1
    assert runs_after((project / "pyproject.toml").write_text("[project]\ndependencies = ['torch>=2.5']\n")) == 1
    assert runs_after(categories=[Category.MEMORY]) == 1
    assert runs_after(categories=[Category.SECURITY]) == 1
    assert runs_after(rules=["ESP301"]) == 1
    assert runs_after((project / "notes.txt").write_text("not read")) == 0
    monkeypatch.setattr("sys.version", "another Python")
    assert runs_after() == 1


def test_a_file_that_is_named_counts_as_named(project, cache, judged):
    review(project, [project / "train.py"], cache=cache)
    review(project, [project / "train.py"], cache=cache)
    (project / "train.py").rename(project / "pkg" / "train.py")
    review(project, [project / "pkg" / "train.py"], cache=cache)
    assert len(judged) == 2


@pytest.mark.parametrize("damage", [b"", b"{}", b"x" * 64 + b"\n{}", None])
def test_a_damaged_entry_is_replaced(project, cache, judged, damage):
    first = review(project, [project], cache=cache)
    (entry,) = entries(cache)
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-1] if damage is None else damage)
    assert review(project, [project], cache=cache) == first
    assert entry.read_bytes() == whole
    assert len(judged) == 2


def test_an_entry_of_another_shape_is_none(project, cache, judged):
    from hashlib import sha256

    review(project, [project], cache=cache)
    (entry,) = entries(cache)
    body = b'{"claims": [], "from": "elsewhere"}'
    entry.write_bytes(sha256(body).hexdigest().encode() + b"\n" + body)
    review(project, [project], cache=cache)
    assert len(judged) == 2


def test_the_folder_and_its_entries_are_for_nobody_else(project, cache):
    review(project, [project], cache=cache)
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert [entry.stat().st_mode & 0o777 for entry in entries(cache)] == [0o600]


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o755])
def test_a_folder_that_others_may_enter_is_not_used(project, cache, judged, mode):
    review(project, [project], cache=cache)
    before = entries(cache)
    cache.folder.chmod(mode)
    review(project, [project], cache=cache)
    (project / "train.py").write_text("x = 1\n")
    review(project, [project], cache=cache)
    assert len(judged) == 3
    assert entries(cache) == before


def test_an_entry_that_others_may_write_is_not_used(project, cache, judged):
    review(project, [project], cache=cache)
    (entry,) = entries(cache)
    entry.chmod(0o666)
    review(project, [project], cache=cache)
    assert len(judged) == 2


def test_links_are_not_followed(project, cache, judged, tmp_path):
    review(project, [project], cache=cache)
    (entry,) = entries(cache)
    moved = entry.rename(tmp_path / "moved")
    entry.symlink_to(moved)
    review(project, [project], cache=cache)
    assert len(judged) == 2
    linked = Cache(tmp_path / "link")
    linked.folder.symlink_to(cache.folder)
    review(project, [project], cache=linked)
    assert len(judged) == 3


def test_a_pipe_in_place_of_an_entry_stops_nothing(project, cache, judged):
    review(project, [project], cache=cache)
    (entry,) = entries(cache)
    entry.unlink()
    os.mkfifo(entry, 0o600)
    review(project, [project], cache=cache)
    assert len(judged) == 2


def test_what_was_asked_for_longest_ago_goes_first(project, cache):
    review(project, [project], cache=cache)
    (first,) = entries(cache)
    cache.most_bytes = 3 * first.stat().st_size
    for number in range(5):
        for age, each in enumerate(sorted(entries(cache), key=lambda entry: entry != first)):
            os.utime(each, (1_000_000 - age, 1_000_000 - age))
        (project / "train.py").write_text(LOOP + f"x = {number}\n")
        review(project, [project], cache=cache)
    assert first in entries(cache)
    assert sum(each.stat().st_size for each in entries(cache)) <= cache.most_bytes


def test_a_report_larger_than_all_that_is_kept_is_not_kept(project, cache):
    cache.most_bytes = 10
    review(project, [project], cache=cache)
    assert not cache.folder.exists()


def test_a_file_that_changes_during_the_review_spoils_no_entry(project, cache, judged, monkeypatch):
    read = engine.read

    def late(file, path):
        if path == "train.py":
            file.write_text("x = 1\n")
        return read(file, path)

    monkeypatch.setattr(engine, "read", late)
    assert "ESP101" not in {claim.rule for claim in review(project, [project], cache=cache).claims}
    monkeypatch.undo()
    (project / "train.py").write_text(LOOP)
    assert "ESP101" in {claim.rule for claim in review(project, [project], cache=cache).claims}


def test_where_nothing_can_be_written_the_review_goes_on(project, tmp_path):
    (tmp_path / "file").write_text("")
    report = review(project, [project], cache=Cache(tmp_path / "file" / "review"))
    assert report.claims


def test_rules_of_other_packages_are_never_taken_for_known(project, cache, judged, monkeypatch):
    monkeypatch.setattr(rules, "_points", lambda: ("something",))
    assert cache.entry(project, [], categories=None, rules=None) is None


def test_modules_that_are_handed_over_keep_the_cache_out(project, cache, judged):
    import types

    for _ in range(2):
        review(project, [project], cache=cache, extra=[types.ModuleType("house")])
    assert len(judged) == 2
    assert not cache.folder.exists()


def test_nothing_is_left_lying_about(project, cache):
    reports: set[ReviewReport] = {review(project, [project], cache=cache) for _ in range(3)}
    assert len(reports) == 1
    assert [entry.suffix for entry in entries(cache)] == [".json"]
