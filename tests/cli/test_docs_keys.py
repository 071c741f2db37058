"""What `docs/keys.md` says of the commands is so, and what it does by hand works."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import typer
from command_line import build
from places import FAULTY, Place, git, write

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/keys.md").read_text(encoding="utf-8")
SHOWN = sorted(set(re.findall(r"esper (keys \w+|certificates countersign)([^`\n#|;]*)", TEXT)))
BY_HAND = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def options():
    app = typer.main.get_command(build())

    def of(group, name):
        command = app.commands[group].commands[name]
        return {opt for parameter in command.params for opt in parameter.opts if opt.startswith("--")}

    names = {f"keys {each}" for each in app.commands["keys"].commands}
    return {each: of(*each.split(" ")) for each in (*names, "certificates countersign")}


@pytest.mark.parametrize(("command", "arguments"), SHOWN)
def test_every_command_and_option_that_is_shown_exists(options, command, arguments):
    assert set(re.findall(r"--[\w-]+", arguments)) <= options[command]


def test_every_command_is_told_of(options):
    assert set(options) == {command for command, _ in SHOWN}


def test_what_is_done_by_hand_works_with_openssl_and_ssh_keygen_alone(tmp_path):
    root = tmp_path / "toy"
    write(root, {"train.py": FAULTY})
    git(root, "init", "-q", "-b", "main", "--template=")
    place = Place(root, tmp_path / "home")
    place.esper("submit", "review this training code", "train.py", "--agent", "pytorch-code-reviewer")
    ann = tmp_path / "ann"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ann], check=True)
    place.esper("certificates", "countersign", "latest", "--key", str(ann), code=0)
    (envelope,) = [path for path in root.rglob("*.dsse.json") if "notice" not in path.name]
    (signature,) = root.rglob("*.sshsig")
    hand = tmp_path / "hand"
    write(
        hand,
        {
            "NAME.dsse.json": envelope.read_bytes(),
            "NAME.N.sshsig": signature.read_bytes(),
            "signer.pub": place.esper("keys", "export", code=0).stdout,
            "signer.pem": place.esper("keys", "export", "--format", "pem", code=0).stdout,
            "allowed_signers": f"ann@example.org {ann.with_name('ann.pub').read_text()}",
        },
    )

    def run(script):
        return subprocess.run(["sh", "-ec", script], cwd=hand, capture_output=True, text=True, check=False)

    said = run(BY_HAND[0])
    assert said.returncode == 0, said.stderr
    fingerprint, shown, verdict = said.stdout.strip().splitlines()
    assert shown.split()[1] == fingerprint
    assert verdict == "Signature Verified Successfully"
    assert run(BY_HAND[1]).returncode == 0
    (hand / "record").write_bytes((hand / "record").read_bytes() + b" ")
    assert run(BY_HAND[1]).returncode != 0
