"""The user's setting that limits which certificates are published into projects."""

from __future__ import annotations

import pytest
from toys import calling

from esper_agents.errors import DefinitionError
from esper_agents.orchestration.settings import PERSONS_FILE, PROJECT_FILE, load_published, load_settings
from esper_agents.paths import PUBLISHED

REQUESTS = {
    "approval": "review this",
    "go": "may this ship?",
    "recommendation": "which of these should we choose?",
    "advice": "explain what this does",
}
LIMITED = '[publish]\nquestion_types = ["approval", "go"]\n'


@pytest.fixture
def looking(toybox):
    toybox.tool("look")
    toybox.agent("worker", calling("look"))
    return toybox


@pytest.fixture
def settings(home):
    def write(text):
        (home / PERSONS_FILE).write_text(text)
        (home / PERSONS_FILE).chmod(0o600)

    return write


async def published(looking):
    """Return the question types of certificates that were published into the project, after one of each was issued."""
    found = set()
    for wanted, request in REQUESTS.items():
        ran = await looking.run("worker", request=request)
        assert ran.certificate.verdict.kind == wanted
        assert ran.outcome.view.is_file()
        if ran.outcome.view.is_relative_to(looking.project / PUBLISHED):
            found.add(wanted)
    return found


@pytest.mark.anyio
async def test_every_certificate_is_published_by_default(looking):
    assert await published(looking) == set(REQUESTS)


@pytest.mark.anyio
async def test_the_user_may_limit_publication_to_approvals_and_go_no_go(looking, settings):
    settings(LIMITED)
    assert await published(looking) == {"approval", "go"}


@pytest.mark.anyio
async def test_a_notice_goes_beside_a_view_that_was_published_before_the_limit(looking, settings):
    ran = await looking.run("worker", request=REQUESTS["advice"])
    settings(LIMITED)
    async with looking.open() as opened:
        await opened.certificates.revoke(ran.certificate.id, "the question was wrong")
    assert len(list(ran.outcome.view.parent.glob("*.notice.json"))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "publish = 1",
        "[publish]\nkinds = []",
        "[publish]\nquestion_types = []",
        '[publish]\nquestion_types = "approval"',
        '[publish]\nquestion_types = ["approvals"]',
        "[publish]\nquestion_types = [1, {}]",
    ],
)
def test_what_the_setting_cannot_be_is_refused_with_its_line_and_a_fix(home, settings, text):
    settings(text)
    for load in (lambda: load_published(home), lambda: load_settings(home, home / "toy")):
        with pytest.raises(DefinitionError) as error:
            load()
        assert error.value.remedy.startswith('write [publish] and below it question_types = ["approval", "go"]')
        assert error.value.exit_code == 2


def test_a_project_cannot_limit_what_is_published(home, make_project):
    root = make_project({PROJECT_FILE: LIMITED})
    with pytest.raises(DefinitionError, match="unknown setting 'publish'"):
        load_settings(home, root)
    assert len(load_published(home)) == 4
