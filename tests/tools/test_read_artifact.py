from __future__ import annotations

from dataclasses import replace

import pytest

from esper_agents.errors import EsperError, EvidenceError, UsageError
from esper_agents.storage.artifacts import Artifacts
from esper_agents.tools.read_artifact import read_artifact
from esper_agents.tools.tool import ToolContext, ToolResult
from tests.tools.evidence_samples import evidence_with

pytestmark = pytest.mark.anyio
TOKEN = "ghp_" + "Zz9" * 12


@pytest.fixture
def keep(context):
    def run(data):
        store = Artifacts(context.home / "artifacts")
        return store.keep_text(data.encode() if isinstance(data, str) else data, "x.txt", "text/plain").sha256

    return run


async def test_a_long_file_is_read_page_by_page(context, keep):
    text = "".join(f"line {number}\n" for number in range(4_000))
    name, read, start = keep(text), "", 0
    while start < len(text):
        page = (await read_artifact.run(context, {"sha256": name, "start": start})).output
        assert page["characters"] == len(text)
        read, start = read + page["text"], page["end"]
    assert read == text


async def test_a_place_may_be_found_by_what_stands_there(context, keep):
    name = keep("x" * 30_000 + "needle" + "y" * 100)
    assert (await read_artifact.run(context, {"sha256": name, "find": "needle"})).output["start"] == 30_000
    with pytest.raises(EvidenceError, match="does not occur"):
        await read_artifact.run(context, {"sha256": name, "find": "needle", "start": 30_001})


async def test_a_secret_is_struck_out_even_where_a_page_ends_in_it(context, keep):
    name = keep("x" * 11_990 + f" {TOKEN} " + "y" * 20_000)
    pages = [await read_artifact.run(context, {"sha256": name, "start": start}) for start in (0, 12_000)]
    assert "Zz9Zz9" not in "".join(page.output["text"] for page in pages)


@pytest.mark.parametrize("name", ["0" * 64, "../../etc/passwd", "", "x" * 64, "artifacts"])
async def test_what_is_no_digest_of_something_kept_is_refused(context, keep, name):
    keep("x")
    with pytest.raises(EsperError):
        await read_artifact.run(context, {"sha256": name})


async def test_bytes_that_are_no_text_are_refused(context, keep):
    with pytest.raises(EvidenceError, match="is not text"):
        await read_artifact.run(context, {"sha256": keep(b"\xff\x00")})


async def test_where_nothing_is_kept_there_is_nothing_to_read(project):
    with pytest.raises(EvidenceError, match="no files are stored"):
        await read_artifact.run(ToolContext(project), {"sha256": "0" * 64})


@pytest.fixture
def with_call(context):
    def run(result):
        made = evidence_with(result, "a-tool")
        return replace(context, evidence={made.id: made}.get), made

    return run


async def test_the_result_of_a_call_is_read_by_the_name_of_its_evidence(with_call):
    context, made = with_call(ToolResult("done", {"answer": 42}))
    found = await read_artifact.run(context, {"evidence": made.id})
    assert '"answer": 42' in found.output["text"]


async def test_a_long_result_and_a_file_of_a_call_are_read_from_the_store(with_call, context):
    store = Artifacts(context.home / "artifacts")
    kept = tuple(store.keep_text(f"it is {name}".encode(), name, "text/plain") for name in ("output.json", "x.log"))
    context, made = with_call(ToolResult("done", {}, artifacts=kept))
    assert (await read_artifact.run(context, {"evidence": made.id})).output["text"] == "it is output.json"
    found = await read_artifact.run(context, {"evidence": made.id, "name": "x.log"})
    assert found.output["text"] == "it is x.log"
    with pytest.raises(EvidenceError, match=r"produced no file 'y\.log'") as refused:
        await read_artifact.run(context, {"evidence": made.id, "name": "y.log"})
    assert refused.value.remedy == "it produced output.json, x.log"


@pytest.mark.parametrize("arguments", [{}, {"sha256": "0" * 64, "evidence": "e1"}])
async def test_either_a_digest_or_evidence_is_named(context, arguments):
    with pytest.raises(UsageError, match="either a digest or evidence"):
        await read_artifact.run(context, arguments)


async def test_evidence_of_another_session_is_refused(context):
    with pytest.raises(EvidenceError, match="is not evidence of this session"):
        await read_artifact.run(context, {"evidence": "e7"})
