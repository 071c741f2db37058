from __future__ import annotations

import json

import pytest
from certificate_samples import every_text, full
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.certificates.redaction import redacted, redaction_count, secrets_of
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task

# Made up, of the published forms; taken apart so that no scanner takes this file for a leak.
SECRETS = {
    "private key": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAA\n-----END OPENSSH PRIVATE KEY-----",
    "Anthropic key": "sk-" + "ant-api03-" + "x9" * 40,
    "OpenAI key": "sk-" + "proj-" + "Ab3" * 16,
    "GitHub token": "gh" + "p_" + "a1B2" * 9,
    "GitLab token": "gl" + "pat-" + "a1B2c3D4e5" * 2,
    "Hugging Face token": "h" + "f_" + "aB" * 17,
    "AWS key": "AK" + "IA" + "ABCD2345" * 2,
    "Google key": "AI" + "za" + "aB3_-" * 7,
    "Slack token": "xo" + "xb-" + "123456789012-abcdef",
    "Stripe key": "sk_" + "live_" + "a1b2c3d4e5f6",
    "npm token": "np" + "m_" + "a1B2" * 9,
    "PyPI token": "py" + "pi-AgE" + "a1B2" * 15,
    "JSON web token": "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0In0." + "a1B2c3D4e5F6",
    "password in an address": "https://somebody:hunter2hunter@example.org/repo.git",
    "bearer token": "Authorization: Bearer " + "a1B2c3D4e5" * 3,
    "password in the source": "db_password = 'correct-horse-battery'",
}


@pytest.mark.parametrize(("name", "secret"), SECRETS.items(), ids=SECRETS)
def test_a_secret_is_struck_out_named_and_counted(name, secret):
    clean = redacted({"line": f"token = {secret} # keep"})

    assert clean.count >= 1
    assert f"[struck out: {name}]" in clean.value["line"]
    assert secret not in clean.value["line"]
    assert clean.value["line"].endswith("# keep")
    assert redaction_count(clean.value["line"]) == clean.count


@pytest.mark.parametrize(
    "text",
    [
        "password = getpass.getpass()",
        "self.secret_dim = 512",
        'api_key = os.environ["ANTHROPIC_API_KEY"]',
        "https://github.com/pytorch/pytorch@main",
        "task-specific-head-with-a-very-long-hyphenated-name",
        "sha256:" + "0f" * 32,
        "http://localhost:8080/path@v2",
        "tokenizer_secret_token: str",
        'password="{password}"',
    ],
)
def test_what_only_speaks_of_secrets_is_left_alone(text):
    assert redacted(text).value == text
    assert redacted(text).count == 0


def test_the_values_of_variables_that_name_secrets_are_struck_out_wherever_they_stand():
    known = secrets_of({"MY_API_KEY": "a-plain-looking-word", "PATH": "/usr/bin:/usr/local/bin", "X_TOKEN": "short"})

    clean = redacted({"output": ["said: a-plain-looking-word!"], "n": 3}, known=known)

    assert known == ("a-plain-looking-word",)
    assert clean.value == {"output": ["said: [struck out: a secret of this machine]!"], "n": 3}
    assert clean.count == 1


def test_of_two_secrets_one_of_which_begins_the_other_nothing_of_the_longer_one_stays():
    clean = redacted("said: a-plain-looking-word", known=("a-plain-looking", "a-plain-looking-word"))
    assert clean.value == "said: [struck out: a secret of this machine]"


@given(st.sampled_from(sorted(SECRETS)), st.text(max_size=30), st.text(max_size=30))
def test_striking_out_twice_is_the_same_as_once(name, before, after):
    once = redacted(before + SECRETS[name] + after)

    again = redacted(once.value)

    assert again.value == once.value
    assert again.count == 0


def test_no_text_of_a_certificate_keeps_a_secret():
    secret = SECRETS["GitHub token"]

    clean = redacted(every_text(full(), secret))

    assert secret not in repr(clean.value)
    assert clean.count > 10


def test_domain_values_keep_their_types():
    task = Task("review with " + SECRETS["AWS key"], ("a.py",), QuestionType.APPROVAL, "review")

    clean = redacted(task)

    assert isinstance(clean.value, Task)
    assert clean.value.kind is QuestionType.APPROVAL
    assert clean.value.request == "review with [struck out: AWS key]"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    ["-----BEGIN " + "PRIVATE KEY-----" * 4000, "://" + "a:" * 50_000, "secret" * 20_000, "ey" + "Ja" * 40_000],
)
def test_a_text_made_to_be_slow_comes_to_an_end(text):
    assert redacted(redacted(text).value).count == 0


def test_what_is_no_text_stays():
    value = {"n": 1, "f": 0.5, "none": None, "yes": True}
    assert redacted(value).value == value
    assert json.dumps(redacted(value).value) == json.dumps(value)
