"""`esper certificates verify`: its exit codes, what it prints, and that it writes nothing."""

from __future__ import annotations

import pytest


def verified(desk, *arguments, code):
    """Return what `verify` prints as JSON, after making sure of its exit code."""
    found = desk.esper("certificates", "verify", *arguments, "--json", code=code).json
    assert found["exit_code"] == code
    return tuple(found[each]["outcome"] for each in ("genuine", "verdict", "citations", "current"))


def test_the_four_answers_stand_apart_on_the_terminal(desk, ids) -> None:
    lines = desk.esper("certificates", "verify", ids[1], code=0).stdout.splitlines()
    heads = [line for line in lines if not line.startswith(" ")]
    assert heads == [
        f"{ids[1]}: REQUIRES_REMEDIATION for train, by pytorch-code-reviewer",
        "genuine: holds",
        "complete: holds",
        "verdict: holds",
        "citations: holds",
        f"current: valid in {desk.root}",
    ]


@pytest.mark.slow
def test_verifying_writes_nothing(desk, ids, view, everything) -> None:
    before = everything()
    assert verified(desk, ids[1][-8:], code=0) == ("holds", "holds", "holds", "valid")
    assert verified(desk, str(view), code=0) == ("holds", "holds", "holds", "valid")
    desk.esper("certificates", "verify", "crt_none", code=2)
    assert everything() == before


def test_a_view_that_was_altered_exits_with_7(desk, ids, view) -> None:
    page = view.read_text("utf-8")
    view.write_text(page.replace("**Status**: REQUIRES_REMEDIATION", "**Status**: APPROVED"), encoding="utf-8")
    assert verified(desk, ids[1], code=7) == ("fails", "holds", "holds", "valid")
    said = desk.esper("certificates", "verify", str(view), code=7).stdout
    assert "genuine: fails" in said
    assert [line for line in said.splitlines() if line.startswith("  view fails:")]
    assert "  signature holds:" in said
    assert "view differs from the statement from line" in " ".join(said.split())
    assert said.splitlines()[-1] == "next: esper certificates repair"
    desk.esper("certificates", "repair", code=0)
    desk.esper("certificates", "verify", str(view), code=0)


@pytest.mark.slow
def test_a_page_that_was_altered_is_repaired_and_a_copy_of_it_elsewhere_is_not(desk, ids, view, record) -> None:
    page = view.with_suffix(".html")
    page.write_text(page.read_text("utf-8") + "<!-- -->", encoding="utf-8")
    copies = desk.root / "copies"
    copies.mkdir()
    for path in (page, record, view, view.with_suffix(".tlog-proof")):
        (copies / path.name).write_bytes(path.read_bytes())
    for target in (ids[1], str(page), str(view)):
        said = desk.esper("certificates", "verify", target, code=7).stdout
        assert said.splitlines()[-1] == "next: esper certificates repair"
    said = desk.esper("certificates", "verify", str(copies / page.name), code=7).stdout
    assert "next: do not use this certificate" in said
    desk.esper("certificates", "repair", code=0)
    desk.esper("certificates", "verify", str(page), code=0)


@pytest.mark.slow
def test_a_record_that_was_forged_is_not_to_be_relied_on(desk, ids, view, record) -> None:
    record.write_bytes(record.read_bytes().replace(b'"payload":"ey', b'"payload":"eX', 1))
    assert "next: do not use this certificate" in desk.esper("certificates", "verify", str(view), code=7).stdout
    said = desk.esper("certificates", "verify", ids[1], code=7).stdout
    assert said.splitlines()[-1] == "next: esper certificates repair"


def test_code_that_moved_on_exits_with_8_and_says_what_to_do(desk, ids) -> None:
    train = desk.root / "train.py"
    train.write_text("# a new first line\n" + train.read_text("utf-8"), encoding="utf-8")
    said = desk.esper("certificates", "verify", ids[1], code=8).stdout
    assert "train.py is stale" in said
    assert "ESP101 at train.py:8: cited line moved to 9" in said
    assert f"next: esper submit --rerun {ids[1]}" in said


def test_a_clone_is_told_that_no_archive_vouches_for_it_and_gets_none(desk, ids, tmp_path) -> None:
    elsewhere = type(desk)(desk.root, tmp_path / "home")
    said = " ".join(elsewhere.esper("certificates", "verify", ids[1], code=4).stdout.split())
    assert "not in the local archive" in said
    assert "is not trusted" in said
    assert "next: get the fingerprint of the key from its owner" in said
    assert not elsewhere.home.exists()


def test_a_published_view_of_another_version_is_no_reason_to_trust_a_key(desk, ids, view, tmp_path) -> None:
    (tmp_path / "author.pub").write_text(desk.esper("keys", "export", code=0).stdout)
    page = view.with_suffix(".html")
    page.write_text(
        page.read_text("utf-8").replace("esper-agents, layout ", "esper-agents, layout 9"), encoding="utf-8"
    )
    elsewhere = type(desk)(desk.root, tmp_path / "home")
    elsewhere.esper("keys", "trust", str(tmp_path / "author.pub"), "--name", "author", code=0)
    said = elsewhere.esper("certificates", "verify", ids[1], code=4).stdout
    assert "next: compare its views with what wrote them: pip install esper-agents==" in said


def test_a_view_without_its_record_exits_with_4_and_two_lines(desk, ids, view, record) -> None:
    record.unlink()
    problem, remedy = desk.esper("certificates", "verify", str(view)).problem(4)
    assert "the envelope of this view is not next to it" in problem
    assert f"`esper certificates verify {ids[1]}`" in remedy
