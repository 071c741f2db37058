"""Secrets in the source, the environment, the remote and the request are in nothing that is published or kept."""

from __future__ import annotations

from base64 import b64decode
from json import loads

import pytest
from places import FAULTY, Place, git, write

TOKEN = "ghp_" + "Zz9" * 12
AWS = "AKIA" + "QWERTYUIOPASDFGH"
PASSWORD = "correct-horse-battery-" + "staple9"
OF_ENVIRONMENT = "plain-words-" + "of-the-environment-42"
SOURCE = FAULTY.replace("        total += loss\n", f'        total += loss  # "{TOKEN}" {OF_ENVIRONMENT}\n')
SOURCE = SOURCE.replace("        loss.backward()\n", f'        loss.backward()  # aws_access_key_id = "{AWS}"\n')
SECRETS = (TOKEN, AWS, PASSWORD, OF_ENVIRONMENT)


@pytest.fixture
def place(tmp_path):
    root = tmp_path / "toy"
    root.mkdir()
    write(root, {"train.py": SOURCE})
    git(root, "init", "-q", "-b", "main", "--template=")
    git(root, "remote", "add", "origin", f"https://ann:{PASSWORD}@example.org/toy.git")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return Place(root, tmp_path / "home")


def test_no_published_file_and_no_database_holds_a_secret(place):
    request = f"review this training code, the token is {TOKEN}"
    done = place.esper("submit", request, "train.py", env={"DEPLOY_SECRET": OF_ENVIRONMENT})
    assert done.code in {0, 3, 4}, done.stderr
    published = [path for path in (place.root / "docs").rglob("*") if path.is_file()]
    assert {path.suffix for path in published} >= {".md", ".html", ".json", ".tlog-proof"}
    kept = [path for path in place.home.rglob("*") if path.is_file()]
    for path in (*published, *kept):
        data = path.read_bytes()
        if path.name.endswith(".dsse.json"):
            data += b64decode(loads(data)["payload"])
            assert b"struck out" in data
        for secret in SECRETS:
            assert secret.encode() not in data, (path, secret)
    assert not [each for each in SECRETS if each in done.stdout + done.stderr]
