"""The report: what was examined, what was not, what was found, and that it is the same every time."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import asdict

import pytest

from esper_agents.domain.codec import canonical
from esper_agents.domain.finding import Category, Severity
from esper_agents.errors import InputFileError
from esper_agents.review.engine import ReviewReport, review, review_sources
from esper_agents.review.source import LARGEST_BYTES

LOOP = """\
import torch

for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss)
"""


def rules_found(report: ReviewReport) -> list[str]:
    return [claim.rule for claim in report.claims]


def test_claims_come_by_path_line_column_and_rule(tmp_path):
    for name in ("b.py", "a.py"):
        (tmp_path / name).write_text(LOOP)
    report = review(tmp_path, [tmp_path])
    keys = [(c.location.path, c.location.line, c.location.column, c.rule) for c in report.claims]
    assert keys == sorted(keys)
    assert {path for path, *_ in keys} == {"a.py", "b.py"}


def test_every_file_that_was_read_is_on_record(tmp_path):
    (tmp_path / "train.py").write_text(LOOP)
    (tmp_path / "plain.py").write_bytes(b"x = 1\r\ny = 2")
    (tmp_path / "__init__.py").write_text("")
    report = review(tmp_path, [tmp_path])
    assert [(each.path, each.lines) for each in report.examined] == [
        ("__init__.py", 0),
        ("plain.py", 2),
        ("train.py", 7),
    ]
    assert report.lines == 9
    assert report.torch_files == 1
    for each in report.examined:
        content = (tmp_path / each.path).read_bytes()
        assert each.sha256 == hashlib.sha256(content).hexdigest()
        assert each.size_bytes == len(content)
        blob = subprocess.run(["git", "hash-object", tmp_path / each.path], capture_output=True, text=True, check=True)
        assert each.git_blob == blob.stdout.strip()


def test_the_same_files_give_the_same_bytes_whatever_the_order_and_the_other_rules(tmp_path):
    for number in range(12):
        (tmp_path / f"m{number}.py").write_text(LOOP.replace("model", f"model_{number}"))
    paths = sorted(tmp_path.iterdir())
    whole = review(tmp_path, paths)
    shuffled = [*paths[5:], *reversed(paths[:5])]
    assert canonical(asdict(review(tmp_path, shuffled))) == canonical(asdict(whole))
    alone = review(tmp_path, paths, rules=["ESP301"])
    assert alone.claims == tuple(claim for claim in whole.claims if claim.rule == "ESP301")


def test_a_fingerprint_stays_when_lines_move_and_tells_equal_lines_apart():
    twice = LOOP + LOOP.partition("\n\n")[2]
    first = review_sources({"a.py": twice}, rules=["ESP301"]).claims
    moved = review_sources({"a.py": "# a new line\n\n" + twice}, rules=["ESP301"]).claims
    assert len({claim.fingerprint for claim in first}) == 2
    assert [claim.fingerprint for claim in first] == [claim.fingerprint for claim in moved]
    assert [claim.location.line for claim in moved] == [claim.location.line + 2 for claim in first]


def test_categories_and_rules_narrow_the_review(tmp_path):
    (tmp_path / "a.py").write_text(LOOP)
    assert rules_found(review(tmp_path, [tmp_path], categories=[Category.MEMORY])) == ["ESP301"]
    assert review(tmp_path, [tmp_path], rules=["gradients-not-cleared"]).rules == ("ESP101",)


def test_each_path_is_told_before_it_is_read(tmp_path):
    for name in ("b.py", "a.py"):
        (tmp_path / name).write_text("x = 1\n")
    told: list[str] = []
    review(tmp_path, [tmp_path], on_file=told.append)
    assert told == ["a.py", "b.py"]


@pytest.mark.parametrize(
    "comment",
    [
        "losses.append(loss)  # esper: ignore[ESP301] five steps in all",
        "# esper: ignore[ESP301] five steps in all\n    losses.append(loss)",
        "losses.append(loss)  # esper: ignore[ESP301,ESP305] five steps in all",
        "losses.append(\n        loss\n    )  # esper: ignore[ESP301] five steps in all",
    ],
    ids=["beside", "above", "several codes", "behind the last line"],
)
def test_a_comment_with_a_reason_silences_its_rule_on_its_line(comment):
    report = review_sources({"a.py": LOOP.replace("losses.append(loss)", comment)}, rules=["ESP101", "ESP301"])
    assert rules_found(report) == ["ESP101"]
    assert report.suppressed == 1


@pytest.mark.parametrize(
    ("comment", "claims"),
    [
        ("# esper: ignore[ESP301]", ["ESP101", "ESP001", "ESP301"]),
        ("# esper: ignore", ["ESP101", "ESP001", "ESP301"]),
        ("# esper: ignore[ESP305] another rule", ["ESP101", "ESP002", "ESP301"]),
    ],
)
def test_a_comment_without_a_reason_or_for_another_rule_silences_nothing(comment, claims):
    report = review_sources({"a.py": LOOP.replace("losses.append(loss)", f"losses.append(loss)  {comment}")})
    assert sorted(rules_found(report)) == sorted(claims)
    assert report.suppressed == 0


def test_a_suppression_inside_a_string_counts_for_nothing():
    source = LOOP.replace("losses.append(loss)", 'losses.append(loss); s = "# esper: ignore[ESP301] no"')
    assert rules_found(review_sources({"a.py": source})) == ["ESP101", "ESP301"]


@pytest.mark.parametrize(
    "header",
    [
        "def step(losses):  # esper: ignore[ESP301] five steps in all\n",
        "# esper: ignore[ESP301] five steps in all\ndef step(losses):\n",
        "# esper: ignore[ESP301] five steps in all\n# of them\n\n@cached\ndef step(losses):\n",
        "@cached  # esper: ignore[ESP301] five steps in all\ndef step(losses):\n",
        "def step(\n    losses,  # esper: ignore[ESP301] five steps in all\n):\n",
    ],
    ids=["beside", "above", "above a decorator", "beside a decorator", "beside a parameter"],
)
def test_a_comment_at_a_definition_speaks_for_the_whole_function(header):
    body = "".join(f"    {line}\n" for line in LOOP.splitlines()[2:])
    report = review_sources({"a.py": "import torch\n\n" + header + body + "\n\n" + LOOP}, rules=["ESP301", "ESP002"])
    assert [claim.rule for claim in report.claims] == ["ESP301"]
    assert report.suppressed == 1


def test_a_comment_in_a_function_speaks_for_its_statement_alone():
    body = "".join(f"    {line}\n" for line in LOOP.splitlines()[2:])
    source = "import torch\ndef step(losses):\n    # esper: ignore[ESP301] not here\n    x = 1\n" + body
    report = review_sources({"a.py": source}, rules=["ESP301", "ESP002"])
    assert [claim.rule for claim in report.claims] == ["ESP002", "ESP301"]


def test_two_comments_above_a_line_both_speak_for_it():
    comments = "# esper: ignore[ESP301] five steps\n    # esper: ignore[ESP305] for the log\n    "
    line = "losses.append(loss); print(loss.item())"
    report = review_sources({"a.py": LOOP.replace("losses.append(loss)", comments + line)})
    assert "ESP301" not in rules_found(report)
    assert "ESP305" not in rules_found(report)


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("ignore[ESP305] the value steers the loop", "ESP305 finds nothing here"),
        ("ignore[ESP302, ESP305] no more", "ESP302, ESP305 find nothing here"),
        ("ignore[ESP999] a slip", "no rule has the code ESP999"),
        ("ignore[item-in-training-loop] by name", "no rule has the code item-in-training-loop"),
    ],
)
def test_a_comment_that_silences_nothing_is_reported(comment, message):
    claims = review_sources({"a.py": LOOP + f"x = 1  # esper: {comment}\n"}).claims
    assert [claim.message.partition(",")[0] in message or message in claim.message for claim in claims] == [
        False,
        False,
        True,
    ]
    assert claims[-1].rule == "ESP002"


def test_a_rule_that_did_not_run_is_not_missed():
    source = LOOP + "x = 1  # esper: ignore[ESP305] the value steers the loop\n"
    assert "ESP002" not in rules_found(review_sources({"a.py": source}, rules=["ESP101", "ESP002"]))
    assert "ESP002" not in rules_found(review_sources({"tests/test_a.py": source}))
    assert "ESP002" in rules_found(review_sources({"a.py": source}, rules=["ESP305", "ESP002"]))


def test_columns_count_characters():
    source = "import torch\nname = 'größe'; state = torch.load(p, weights_only=False)\n"
    claim = review_sources({"a.py": source}).claims[0]
    assert claim.location.column == len("name = 'größe'; state = ") + 1


def test_sources_in_other_encodings_are_read(tmp_path):
    (tmp_path / "latin.py").write_bytes("# -*- coding: latin-1 -*-\nname = 'größe'\n".encode("latin-1"))
    (tmp_path / "marked.py").write_bytes(b"\xef\xbb\xbfx = 1\n")
    report = review(tmp_path, [tmp_path])
    assert len(report.examined) == 2
    assert report.unreadable == ()


def test_what_cannot_be_read_in_a_directory_is_reported_and_the_rest_reviewed(tmp_path):
    (tmp_path / "a.py").write_text(LOOP)
    (tmp_path / "binary.py").write_bytes(b"\x00\x01\x02")
    (tmp_path / "broken.py").write_text("x = 1\ndef f(:\n")
    (tmp_path / "huge.py").write_bytes(b"#" * (LARGEST_BYTES + 1))
    (tmp_path / "mojibake.py").write_bytes(b"x = 1\ny = '\xff'\n")
    (tmp_path / "unknown.py").write_bytes(b"# coding: klingon\n")
    report = review(tmp_path, [tmp_path])
    assert [each.path for each in report.examined] == ["a.py", "broken.py"]
    assert rules_found(report) == ["ESP101", "ESP301", "ESP109"]
    assert [(each.path, each.line) for each in report.unreadable] == [
        ("binary.py", None),
        ("huge.py", None),
        ("mojibake.py", 2),
        ("unknown.py", None),
    ]
    assert all(each.problem and each.remedy for each in report.unreadable)


def test_a_source_that_nests_too_deeply_is_reported(tmp_path):
    (tmp_path / "deep.py").write_text("x = " + "-" * 100_000 + "1\n")
    (tmp_path / "long.py").write_text("x = " + " + ".join(["1"] * 20_000) + "\n")
    report = review(tmp_path, [tmp_path])
    assert [each.path for each in report.unreadable] == ["deep.py", "long.py"]


def test_a_source_that_nests_too_deeply_for_a_rule_costs_the_others_nothing():
    deep = "def f(x):\n    return " + "-" * 400 + "x / x.sum()\n"
    report = review_sources({"a.py": LOOP + deep, "b.py": LOOP}, rules=["ESP101", "ESP211", "ESP301"])
    assert rules_found(report) == ["ESP101", "ESP301"] * 2
    assert [(each.path, each.problem) for each in report.unreadable] == [("a.py", "nests too deeply for ESP211")]


def test_a_file_that_does_not_parse_is_a_critical_finding_where_the_parser_stops(tmp_path):
    (tmp_path / "broken.py").write_text("x = 1\ndef f(:\n")
    report = review(tmp_path, [tmp_path / "broken.py"])
    (claim,) = report.claims
    assert (str(claim.location), claim.rule, claim.severity) == ("broken.py:2", "ESP109", Severity.CRITICAL)
    assert claim.excerpt == "def f(:"
    assert [each.path for each in report.examined] == ["broken.py"]
    assert report.unreadable == ()


def test_a_file_that_does_not_parse_is_unread_for_rules_that_cannot_say_so(tmp_path):
    (tmp_path / "broken.py").write_text("def f(:\n")
    report = review(tmp_path, [tmp_path], rules=["ESP101"])
    assert (report.claims, report.examined) == ((), ())
    assert [(each.path, each.line) for each in report.unreadable] == [("broken.py", 1)]


MATCH = "match x:\n    case 1:\n        y = 2\n"
LAZY = "lazy import json\n"


@pytest.mark.parametrize(
    ("settings", "source", "outcome"),
    [
        ({}, MATCH, "read"),
        ({"pyproject.toml": '[project]\nrequires-python = ">=3.9"\n'}, MATCH, "ESP109"),
        ({"pyproject.toml": '[project]\nrequires-python = ">=3.9"\n', ".python-version": "3.12\n"}, MATCH, "ESP109"),
        ({"pyproject.toml": '[project]\nrequires-python = "~=3.11"\n'}, MATCH, "read"),
        ({"pyproject.toml": '[project]\nname = "x"\n', ".python-version": "3.8.10\n"}, MATCH, "ESP109"),
        ({".python-version": "3.13\n"}, MATCH, "read"),
        ({"pyproject.toml": "[project\n"}, MATCH, "read"),
        ({}, LAZY, "unread"),
        ({"pyproject.toml": '[project]\nrequires-python = ">=3.15"\n'}, LAZY, "unread"),
        ({"pyproject.toml": '[project]\nrequires-python = ">=3.10"\n'}, LAZY, "ESP109"),
        ({"pyproject.toml": '[project]\nrequires-python = ">=3.14"\n'}, LAZY, "ESP109"),
        ({"pyproject.toml": '[project]\nrequires-python = ">=3.15"\n'}, "def f(:\n", "unread"),
        ({"pyproject.toml": '[project]\nrequires-python = ">=3.8"\n'}, "def f(:\n", "ESP109"),
    ],
)
def test_the_projects_own_python_decides_what_is_an_error(tmp_path, settings, source, outcome):
    (tmp_path / "a.py").write_text(source)
    for name, text in settings.items():
        (tmp_path / name).write_text(text)
    report = review(tmp_path, [tmp_path])
    found = [*rules_found(report), *("unread" for _ in report.unreadable)] or ["read"]
    assert found == [outcome]


def test_what_a_folder_holds_and_cannot_be_read_is_named(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "outside.py").write_text("x = 1\n")
    (root / "a.py").write_text("x = 1\n")
    os.mkfifo(root / "pipe.py")
    (root / "out.py").symlink_to(tmp_path / "outside.py")
    (root / "nowhere.py").symlink_to(root / "missing.py")
    (root / "inside.py").symlink_to(root / "a.py")
    report = review(root, [root])
    assert [each.path for each in report.examined] == ["a.py", "inside.py"]
    assert [(each.path, each.problem) for each in report.unreadable] == [
        ("nowhere.py", "broken link"),
        ("out.py", "link to a path outside the project"),
        ("pipe.py", "not a regular file"),
    ]


@pytest.mark.parametrize(("content", "problem"), [(b"", "empty"), (b" \n\n", "empty"), (b"\x7fELF\x00", "binary")])
def test_a_file_named_by_a_person_must_hold_something(tmp_path, content, problem):
    (tmp_path / "a.py").write_bytes(content)
    with pytest.raises(InputFileError, match=problem):
        review(tmp_path, [tmp_path / "a.py"])


def test_odd_escapes_in_reviewed_code_warn_nobody(tmp_path):
    (tmp_path / "a.py").write_text("import re\nre.match('\\d', '1')\nx = 1 is 1\n")
    assert len(review(tmp_path, [tmp_path]).examined) == 1


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("train.py", {("ESP101", "critical"), ("ESP301", "warning")}),
        ("examples/train.py", {("ESP101", "critical"), ("ESP301", "warning")}),
        ("tests/test_train.py", {("ESP101", "warning")}),
        ("pkg/test_train.py", {("ESP101", "warning")}),
        ("benchmarks/train.py", {("ESP101", "warning")}),
    ],
)
def test_tests_and_benchmarks_are_let_off_in_part(path, found):
    report = review_sources({path: LOOP})
    assert {(claim.rule, claim.severity.value) for claim in report.claims} == found


def test_a_review_leaves_the_garbage_collector_as_it_was():
    import gc

    assert gc.isenabled()
    review_sources({"a.py": LOOP})
    assert gc.isenabled()


def test_a_clean_file_has_no_claims():
    clean = LOOP.replace("    loss =", "    optimizer.zero_grad()\n    loss =").replace("(loss)", "(loss.detach())")
    report = review_sources({"a.py": clean})
    assert report.claims == ()


def test_a_review_leaves_nothing_for_the_collector_to_find():
    import gc

    review_sources({"a.py": LOOP})
    gc.collect()
    gc.disable()
    try:
        review_sources({"a.py": LOOP, "b.py": "class A:\n    def f(self):\n        return [x for x in self.g()]\n"})
        assert gc.collect() < 100
    finally:
        gc.enable()
