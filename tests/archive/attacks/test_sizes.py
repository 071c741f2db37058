"""Records without measure: refused in one line, or read, within bounds of memory and of time on a processor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
MEMORY_BYTES = 3 * 2**30
# Of one processor, for work that a machine does in a tenth of it; what is quadratic takes hours.
CPU_S = 240
_HEAD = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_BYTES}, {MEMORY_BYTES}))
resource.setrlimit(resource.RLIMIT_CPU, ({CPU_S}, {CPU_S}))
sys.path.insert(0, {str(TESTS)!r})
from dataclasses import replace
from pathlib import Path
from certificate_samples import certificate, claim, finding, full, source
from esper_agents.certificates.statement import parse, statement
from esper_agents.archive.verification.files import verify_subjects
from esper_agents.archive.verification.statement import verify_statement, verify_view
from esper_agents.certificates.policy.policy_file import policy_text
from esper_agents.errors import EsperError
"""


def ran(work, cwd):
    """Return what a piece of Python prints that has bounds."""
    indented = "\n".join(f"    {line}" for line in work.strip().splitlines())
    program = (
        f"{_HEAD}\ntry:\n{indented}\nexcept EsperError as error:\n    print(type(error).__name__, error.problem)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.mark.slow
def test_findings_of_100_mb_are_refused_in_one_line_before_anything_is_issued(tmp_path):
    said = ran('statement(replace(full(), findings=(finding(message="x" * 100_000_000),)))', tmp_path)
    assert said.startswith("EvidenceError the certificate would have 1000")
    assert "\n" not in said


@pytest.mark.slow
def test_a_hundred_thousand_findings_are_read_or_refused(tmp_path):
    said = ran(
        """
made = replace(full(), findings=tuple(finding(each) for each in range(100_000)))
statement(made)
""",
        tmp_path,
    )
    assert said.startswith("EvidenceError the certificate would have ")


@pytest.mark.slow
def test_as_many_findings_as_fit_in_one_file_are_compared_line_by_line(tmp_path):
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/train.py").write_text("x = 1\n" * 60_000)
    said = ran(
        """
text = "y = 1\\n" * 60_000
made = replace(full(), examined=(source(text=text),), findings=tuple(finding(each) for each in range(60_000)))
data = statement(made)
(file,) = verify_subjects(data, Path.cwd())
checks = verify_statement(data, policy_text())
views = verify_view(data, "x")
print(file.state, len(file.citations), {str(each.outcome) for each in file.citations}, len(checks), len(views))
""",
        tmp_path,
    )
    assert said == "stale 60000 {'fails'} 7 3"


@pytest.mark.slow
def test_a_million_subjects_are_refused_in_one_line(tmp_path):
    said = ran(
        """
file = source()
statement(replace(certificate(), examined=tuple(replace(file, path=f"{each}.py") for each in range(1_000_000))))
""",
        tmp_path,
    )
    assert said.startswith("EvidenceError the certificate would have ")


@pytest.mark.slow
def test_one_file_that_is_named_a_hundred_thousand_times_is_read_once(tmp_path):
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/train.py").write_bytes(b"#" * (60 * 2**20))
    said = ran(
        """
data = statement(replace(certificate(), examined=(source(),) * 100_000))
print({str(each.state) for each in verify_subjects(data, Path.cwd())})
""",
        tmp_path,
    )
    assert said == "{'stale'}"


@pytest.mark.slow
@pytest.mark.parametrize("opened", ["[", '{"a":', '[{"a":'])
def test_json_that_never_ends_is_refused_in_one_line(tmp_path, opened):
    said = ran(f"parse(({opened!r} * 10_000_000).encode()[:64 * 2**20])", tmp_path)
    assert said.startswith("IntegrityError not a certificate: it nests deeper than 64")


@pytest.mark.slow
def test_what_is_issued_at_its_largest_can_be_read_again_from_its_envelope(tmp_path):
    said = ran(
        """
from esper_agents.certificates.signing.dsse import envelope_bytes, read_envelope, seal
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.statement import MOST_ISSUED
made = certificate()
made = replace(made, summary="x" * (MOST_ISSUED - len(statement(made)) + len(made.summary)))
data = statement(made)
envelope = envelope_bytes(seal(signing_key(Path.cwd() / "home"), data))
print(len(data) == MOST_ISSUED, read_envelope(envelope).payload == data)
""",
        tmp_path,
    )
    assert said == "True True"
