from __future__ import annotations

import pytest

from esper_agents.domain.finding import Category
from esper_agents.errors import EsperError, UsageError
from esper_agents.review.companion import CompanionRule
from esper_agents.tools.static_review import static_review
from esper_agents.tools.tool import ToolContext

pytestmark = pytest.mark.anyio


async def test_findings_come_back_as_claims_about_files_that_were_read(call, project):
    found = await call("static-review", paths=["train.py"])
    assert "ESP305" in {each.rule for each in found.claims}
    assert [each.path for each in found.examined] == ["train.py"]
    lines = (project / "train.py").read_text().splitlines()
    for claim in found.claims:
        assert claim.location.path == "train.py"
        assert claim.excerpt.strip() == lines[claim.location.line - 1].strip()
    assert found.output["claims"] == [each.fingerprint for each in found.claims]
    assert found.output["files"] == 1


async def test_only_rules_of_the_named_categories_are_applied(call):
    everything = await call("static-review", paths=["train.py"])
    some = await call("static-review", paths=["train.py"], categories=["memory"])
    assert {claim.category for claim in some.claims} <= {Category.MEMORY}
    assert set(some.output["rules"]) < set(everything.output["rules"])


async def test_an_unknown_category_is_refused_with_those_there_are(call):
    with pytest.raises(UsageError) as refused:
        await call("static-review", paths=["train.py"], categories=["magic"])
    assert "silent-correctness" in refused.value.remedy


async def test_a_file_that_cannot_be_read_is_said_and_the_others_are_reviewed(call, project):
    (project / "odd.py").write_bytes(b"x = '\xff'\n")
    (project / "binary.py").write_bytes(b"\0\1\2")
    found = await call("static-review", paths=["."])
    assert {each["path"] for each in found.output["unreadable"]} == {"odd.py", "binary.py"}
    assert all(each["problem"] and each["remedy"] for each in found.output["unreadable"])
    assert "2 files could not be read" in found.summary
    assert "train.py" in {each.path for each in found.examined}


@pytest.mark.parametrize("path", ["..", "/etc", "../other.py", "link.py"])
async def test_paths_outside_the_project_are_refused(call, project, path):
    (project.parent / "other.py").write_text("import torch\n")
    (project / "link.py").symlink_to("../other.py")
    with pytest.raises(EsperError):
        await call("static-review", paths=[path])


@pytest.mark.parametrize("categories", [None, [], ["memory", "security"]])
async def test_every_call_that_can_be_made_can_be_told_as_a_command(categories):
    arguments = {"paths": ["a b.py"]} | ({} if categories is None else {"categories": categories})
    said = static_review.rerun(arguments)
    assert said.endswith("-- 'a b.py'")
    assert said.count("--category") == len(categories or [])
    assert static_review.rerun({"paths": ["x.py"], "categories": None}) == "esper review -- x.py"


async def test_only_what_a_change_brought_is_claimed(project, git):
    (project / "new.py").write_text('import torch\n\nstate = torch.load("a.pt", weights_only=False)\n')
    companion = CompanionRule(("*.py",), ("docs/**",), "documented", "a skill")
    context = ToolContext(project, companions=(companion,))
    found = await static_review.run(context, {"paths": ["."], "since": "HEAD"})
    assert [(claim.rule, claim.location.path) for claim in found.claims] == [("ESP701", "new.py"), ("ESP901", "new.py")]
    assert {claim.location.path for claim in found.claims} <= {each.path for each in found.examined}
    assert static_review.rerun({"paths": ["."], "since": "HEAD"}) == "esper review --diff=HEAD -- ."
    with pytest.raises(UsageError):
        await static_review.run(context, {"paths": ["."], "since": "--nothing"})


async def test_a_related_file_that_cannot_be_read_is_listed_apart(call, project):
    (project / "odd.py").write_bytes(b"x = '\xff'\n")
    found = await call("static-review", paths=["train.py"], related=["."])
    assert found.output["unreadable"] == []
    assert [each["path"] for each in found.output["related_unreadable"]] == ["odd.py"]


LOSSES = """import torch


def compute(model, x, y):
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss.detach()


def keep(path):
    return torch.load(path, weights_only=False)
"""
FIT = """from losses import compute


def fit(model, loader, optimizer):
    history = []
    for x, y in loader:
        optimizer.zero_grad()
        history.append(compute(model, x, y))
        optimizer.step()
    return history
"""


async def test_a_finding_that_a_change_causes_in_an_unchanged_file_is_part_of_it_and_older_ones_are_counted(
    call, project, git
):
    (project / "losses.py").write_text(LOSSES)
    (project / "fit.py").write_text(FIT)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "both")
    (project / "losses.py").write_text(LOSSES.replace("loss.detach()", "loss"))
    found = await call("static-review", paths=["losses.py"], related=["fit.py"], since="HEAD")
    claims = [(claim.rule, str(claim.location)) for claim in found.claims]
    assert claims == [("ESP301", "fit.py:8"), ("ESP702", "losses.py:7")]
    assert [each.path for each in found.examined] == ["fit.py", "losses.py"]
    assert found.summary.endswith("1 older finding not part of the change: esper review losses.py")
    assert (found.output["change"]["fixed_count"], found.output["change"]["worsened"]) == (0, [])
    (project / "losses.py").write_text(LOSSES.replace("False", "True"))
    repaired = await call("static-review", paths=["losses.py"], since="HEAD")
    assert repaired.claims == ()
    assert [each["place"] for each in repaired.output["change"]["fixed"]] == ["losses.py:11"]
