from __future__ import annotations

import pytest

from esper_agents.errors import EsperError, EvidenceError
from esper_agents.storage.artifacts import Artifacts
from esper_agents.tools.read_artifact import read_artifact
from esper_agents.tools.tool import ToolContext

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
    assert "Zz9Zz9" not in "".join(each.output["text"] for each in pages)


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
