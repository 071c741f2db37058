"""A review as SARIF is valid, stable, and carries nothing that a reader could take for more than text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from esper_agents.api import ReviewOptions, fix_files, review_as_sarif, review_files
from esper_agents.review.catalogue import catalogue
from esper_agents.review.engine import review_sources
from esper_agents.review.outcome import ReviewOutcome
from esper_agents.review.sarif import as_sarif
from esper_agents.review.source import Unreadable

# As it comes with the npm package @microsoft/sarif-multitool-linux 5.7.0, white space aside.
SCHEMA = json.loads(Path(__file__).with_name("sarif-2.1.0.schema.json").read_text(encoding="utf-8"))
SOURCE = """\
import torch

state = torch.load(
    "a.pt",
    weights_only=False,
)
for x in loader:
    model(x).backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def check():
    validator = jsonschema.validators.validator_for(SCHEMA)
    validator.check_schema(SCHEMA)
    return validator(SCHEMA, format_checker=validator.FORMAT_CHECKER).validate


def sarif_of(sources, **more):
    report = review_sources({"train.py": sources} if isinstance(sources, str) else sources)
    return as_sarif(ReviewOutcome(report, **more), catalogue())


def results_of(log):
    return log["runs"][0]["results"]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "source", [SOURCE, "x = 1\n", "def f(:\n", "import pickle\nimport torch\n\nx = pickle.load(open('model{0}.pt'))\n"]
)
def test_it_is_valid_against_the_schema(check, source):
    check(sarif_of(source))


def test_the_schema_would_notice(check):
    log = sarif_of(SOURCE)
    results_of(log)[0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    with pytest.raises(jsonschema.ValidationError):
        check(log)


def test_a_result_has_its_rule_place_level_category_and_fingerprint():
    log = sarif_of(SOURCE)
    result = next(each for each in results_of(log) if each["ruleId"] == "ESP901")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {
        "startLine": 3,
        "startColumn": 9,
        "endLine": 6,
        "snippet": {"text": "state = torch.load("},
    }
    assert result["level"] == "warning"
    assert result["properties"]["category"] == "security"
    (fingerprint,) = result["partialFingerprints"].values()
    assert len(fingerprint) == 32
    rule = log["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert rule["id"] == "ESP901"


def test_every_rule_that_ran_is_described(check):
    log = sarif_of("x = 1\n")
    check(log)
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [each.code for each in catalogue()]
    for rule in rules:
        assert rule["help"]["markdown"].startswith(f"# {rule['id']} ")
        assert rule["defaultConfiguration"]["level"] in {"error", "warning", "note"}
        assert rule["properties"]["category"] in rule["properties"]["tags"]
    security = [rule for rule in rules if rule["properties"]["category"] == "security"]
    assert all(float(each["properties"]["security-severity"]) > 0 for each in security)


def test_it_is_the_same_for_the_same_review_and_names_no_machine():
    assert json.dumps(sarif_of(SOURCE)) == json.dumps(sarif_of(SOURCE))
    assert "file:" not in json.dumps(sarif_of(SOURCE)["runs"][0]["originalUriBaseIds"])


def test_a_fingerprint_stays_when_lines_above_move():
    before, after = results_of(sarif_of(SOURCE)), results_of(sarif_of("import os\n\n" + SOURCE))
    assert [each["partialFingerprints"] for each in before] == [each["partialFingerprints"] for each in after]
    assert before != after


def test_a_path_is_a_relative_uri_whatever_it_holds(check):
    log = sarif_of({"a b/é#%.py": SOURCE})
    check(log)
    uris = {each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in results_of(log)}
    assert uris == {"a%20b/%C3%A9%23%25.py"}


def test_a_known_finding_is_there_and_suppressed(check):
    report = review_sources({"train.py": SOURCE})
    known = ReviewOutcome(replace(report, claims=report.claims[1:]), known=report.claims[:1])
    log = as_sarif(known, catalogue())
    check(log)
    suppressed = [each["ruleId"] for each in results_of(log) if each.get("suppressions")]
    assert suppressed == [report.claims[0].rule]
    assert len(results_of(log)) == len(report.claims)


def test_a_silenced_finding_is_there_with_its_reason(check):
    log = sarif_of(SOURCE.replace("backward()", "backward()  # esper: ignore[ESP101] one step only"))
    check(log)
    suppressions = {each["ruleId"]: each["suppressions"][0] for each in results_of(log) if "suppressions" in each}
    assert suppressions == {"ESP101": {"kind": "inSource", "status": "accepted", "justification": "one step only"}}


def test_what_was_not_read_is_a_notification(check):
    report = replace(review_sources({"a.py": "x = 1\n"}), unreadable=(Unreadable("b.py", "odd", "mend it", 7),))
    log = as_sarif(ReviewOutcome(report), catalogue())
    check(log)
    (note,) = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"] == "odd; mend it"


def test_a_message_holds_no_link():
    report = review_sources({"train.py": SOURCE})
    linked = replace(report.claims[0], message="see [here](https://example.org)")
    (result,) = results_of(as_sarif(ReviewOutcome(replace(report, claims=(linked,))), catalogue()))
    assert r"\[here\](https://example.org)" in result["message"]["text"]


def test_locations_that_a_message_names_are_linked_and_no_others(check):
    sources = {
        "train.py": "import torch\nfrom model import f\n\n\ndef g(x, y):\n    p = torch.softmax(x, 1)\n"
        "    return torch.nn.functional.cross_entropy(p, y)\n"
    }
    log = sarif_of(sources)
    check(log)
    (result,) = (each for each in results_of(log) if each["ruleId"] == "ESP201")
    (related,) = result["relatedLocations"]
    assert related["physicalLocation"]["region"] == {"startLine": 6}
    assert "(on [line 6](1))" in result["message"]["text"]
    report = review_sources({"train.py": SOURCE})
    message = "x[0](y) line 2 of train.py, train.py:4, line 900, other.py:1, line 3 before, [line 5](9)"
    linked = replace(report.claims[0], message=message)
    log = as_sarif(ReviewOutcome(replace(report, claims=(linked,))), catalogue())
    check(log)
    (result,) = results_of(log)
    lines = [each["physicalLocation"]["region"]["startLine"] for each in result["relatedLocations"]]
    assert lines == [2, 4, 5]
    text = result["message"]["text"]
    assert text.startswith(r"x\[0\](y) [line 2 of train.py](1), [train.py:4](2), line 900, other.py:1, line 3 before, ")
    assert r"\[[line 5](3)\](9)" in text


def test_a_rule_has_its_page_and_the_address_of_its_first_source_and_no_other():
    rules = {each["id"]: each for each in sarif_of("x = 1\n")["runs"][0]["tool"]["driver"]["rules"]}
    assert all(rule["help"]["markdown"] for rule in rules.values())
    assert rules["ESP702"]["helpUri"] == "https://docs.pytorch.org/docs/stable/notes/faq.html"
    assert not [rule for rule in rules.values() if "esper-agents.dev" in rule.get("helpUri", "")]


def test_columns_count_characters(check):
    log = sarif_of('import torch\n\nx = "é𝄞"; y = torch.load("a", weights_only=False)\n')
    check(log)
    (result,) = results_of(log)
    assert result["locations"][0]["physicalLocation"]["region"]["startColumn"] == 15


def fixed_by(log, path, text):
    """Return a text after the replacements of the first fix for its file, as a reader of SARIF applies them."""
    fix = next(each["fixes"][0] for each in results_of(log) if "fixes" in each)
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"]["uri"] == path
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
    for each in reversed(change["replacements"]):
        region = each["deletedRegion"]
        begin = starts[region["startLine"] - 1] + region["startColumn"] - 1
        end = starts[region["endLine"] - 1] + region["endColumn"] - 1
        text = text[:begin] + each.get("insertedContent", {"text": ""})["text"] + text[end:]
    return text


@pytest.mark.parametrize("ending", ["\n", ""])
def test_the_fix_of_a_result_makes_of_the_file_what_fixing_does(make_project, check, ending):
    text = f"import torch\n\nstate = torch.load('größe.pt'){ending}"
    project = make_project({"load.py": text})
    options = ReviewOptions((project / "load.py",), may_cache=False)
    log = review_as_sarif(review_files(options), options=options)
    check(log)
    fix_files(options)
    fixed = (project / "load.py").read_text("utf-8")
    assert fixed != text
    assert fixed_by(log, "load.py", text) == fixed
    assert not any("fixes" in each for each in results_of(review_as_sarif(review_files(options))))


def test_a_fix_with_a_secret_in_its_lines_is_left_out(make_project, monkeypatch):
    monkeypatch.setenv("MODEL_TOKEN", "correct-horse-battery-staple-9")
    text = "import torch\n\nstate = torch.load('correct-horse-battery-staple-9.pt')\n"
    options = ReviewOptions((make_project({"load.py": text}) / "load.py",), may_cache=False)
    log = review_as_sarif(review_files(options), options=options)
    assert results_of(log)
    assert not any("fixes" in each for each in results_of(log))
