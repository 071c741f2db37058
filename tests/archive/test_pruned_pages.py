"""Pruned HTML pages: gone, not missing, not written again, rendered on demand; nothing else is touched."""

from __future__ import annotations

import pytest
from places import FAULTY, Place, git, write


@pytest.fixture
def judged(tmp_path):
    write(tmp_path / "toy", {"train.py": FAULTY})
    git(tmp_path / "toy", "init", "-q", "-b", "main", "--template=")
    place = Place(tmp_path / "toy", tmp_path / "home")
    place.esper("submit", "review this training code", "train.py", "--agent", "pytorch-code-reviewer")
    return place


def published(place):
    return {path.name for path in place.root.glob("docs/ai/agents/*/certificates/*")}


def test_old_pages_are_deleted_and_everything_else_stays_and_verifies(judged):
    before = published(judged)
    (page,) = (name for name in before if name.endswith(".html"))
    assert "can be deleted: 1 page" in judged.esper("archive", "prune", "--pages-older-than", "0", "--dry-run").stdout
    assert published(judged) == before
    problem, remedy = judged.esper("archive", "prune", "--pages-older-than", "0").problem(2)
    assert ("confirmation" in problem, "--yes" in remedy) == (True, True)
    done = judged.esper("archive", "prune", "--pages-older-than", "0", "--yes", "--json", code=0).json
    assert [done["removed"], len(done["pages"])] == [True, 1]
    assert published(judged) == before - {page}
    assert "published: no file missing" in judged.esper("certificates", "verify", "--all", code=0).stdout
    assert judged.esper("certificates", "repair", code=0).stdout == "nothing to repair\n"
    assert published(judged) == before - {page}
    # A colleague who has the files alone sees no difference either.
    colleague = Place(judged.root, judged.home.parent / "colleague")
    verified = colleague.esper("certificates", "verify", "latest", "--json").json
    assert verified["complete"]["outcome"] == "holds"


def test_a_pruned_page_is_opened_outside_of_the_project(judged):
    judged.esper("archive", "prune", "--pages-older-than", "0", "--yes", code=0)
    path = judged.esper("open", "--print-path", code=0).stdout.strip()
    assert path.startswith(str(judged.home))
    assert not any(name.endswith(".html") for name in published(judged))


def test_recent_pages_are_kept_and_a_link_is_never_followed(judged, tmp_path):
    assert "0 pages" in judged.esper("archive", "prune", "--pages-older-than", "1", "--yes", code=0).stdout
    (page,) = judged.root.glob("docs/ai/agents/*/certificates/*.html")
    (tmp_path / "mine.html").write_text("mine")
    page.unlink()
    page.symlink_to(tmp_path / "mine.html")
    assert "0 pages" in judged.esper("archive", "prune", "--pages-older-than", "0", "--yes", code=0).stdout
    assert (page.is_symlink(), (tmp_path / "mine.html").read_text()) == (True, "mine")
