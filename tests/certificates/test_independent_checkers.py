"""What is published of a real certificate holds before programs that are not ours, by the commands of the pages."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from esper_agents.api import open_project
from esper_agents.certificates.log.note import read_proof
from esper_agents.certificates.signing.allowed_signers import own_signer
from esper_agents.certificates.signing.dsse import envelope_bytes, read_envelope, seal
from esper_agents.certificates.signing.signing_key import as_note_key, as_pem, signing_key
from esper_agents.certificates.signing.sshsig import countersign

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/certificates.md").read_text(encoding="utf-8")
BY_HAND = re.findall(r"^```sh\n(sed .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
GO_PATH = Path("/usr/share/gocode/src/golang.org/x/mod/sumdb")


@pytest.fixture
def judged(judged_project, monkeypatch):
    monkeypatch.chdir(judged_project.root)
    return judged_project


@pytest.fixture
def key(home, judged):
    return signing_key(home)


def needs(program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: that it agrees was NOT tested")


def by_hand(judged, key, folder):
    folder.mkdir(exist_ok=True)
    (folder / "key.pem").write_text(as_pem(key.public_key))
    name = str(judged.record).removesuffix(".dsse.json")
    done = subprocess.run(
        ["sh", "-c", BY_HAND[0]],
        cwd=folder,
        env={"NAME": name, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
    )
    return done.stdout.decode()


def test_the_page_shows_five_commands():
    assert len(BY_HAND) == 1
    assert len(BY_HAND[0].splitlines()) == 5


def test_openssl_agrees_by_the_five_commands_of_the_page(judged, key, tmp_path):
    needs("openssl")
    said = by_hand(judged, key, tmp_path / "hand")
    assert "Signature Verified Successfully" in said
    (named,) = re.findall(r"^Certificate Hash: sha256:(\w+)$", judged.view.read_text("utf-8"), re.MULTILINE)
    assert named in said


@pytest.mark.parametrize("change", ["payload", "signature", "key"])
def test_openssl_refuses_what_was_changed(judged, key, tmp_path, change):
    needs("openssl")
    data = judged.record.read_bytes()
    if change == "key":
        key = signing_key(tmp_path / "other")
    elif change == "payload":
        other = envelope_bytes(seal(key, b"{}"))
        signature = data[data.index(b'"sig":"') :]
        judged.record.write_bytes(other[: other.index(b'"sig":"')] + signature)
    else:
        place = data.index(b'"sig":"') + 20
        judged.record.write_bytes(
            data[:place] + (b"A" if data[place : place + 1] != b"A" else b"B") + data[place + 1 :]
        )
    assert "Signature Verified Successfully" not in by_hand(judged, key, tmp_path / "hand")


def test_ssh_keygen_agrees_on_a_countersignature_that_is_published(judged, home, tmp_path):
    needs("ssh-keygen")
    own = tmp_path / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ann", "-f", own], check=True)
    record = read_envelope(judged.record.read_bytes()).payload
    (tmp_path / "it.sshsig").write_text(countersign(record, own, home))
    public = own.with_suffix(".pub").read_text().split()
    (tmp_path / "allowed").write_text(f'ann namespaces="esper-certificate" {public[0]} {public[1]}\n')
    command = ["ssh-keygen", "-Y", "verify", "-f", "allowed", "-I", "ann", "-n", "esper-certificate", "-s", "it.sshsig"]
    assert subprocess.run(command, cwd=tmp_path, input=record, capture_output=True, check=False).returncode == 0
    assert subprocess.run(command, cwd=tmp_path, input=record + b" ", capture_output=True, check=False).returncode != 0


def test_ssh_keygen_reads_the_file_of_trusted_keys_that_is_written_here(key, tmp_path):
    needs("ssh-keygen")
    (tmp_path / "allowed").write_text(own_signer("ann@example.org", key.public_key).line() + "\n")
    command = ["ssh-keygen", "-Y", "match-principals", "-I", "ann@example.org", "-f", tmp_path / "allowed"]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() == "ann@example.org"


_NODE = """
const { createHash, createPublicKey, verify } = require("node:crypto");
const { readFileSync } = require("node:fs");
const [file, pem, proof, vkey] = process.argv.slice(1);
const bytes = readFileSync(file);
const envelope = JSON.parse(bytes);
const payload = Buffer.from(envelope.payload, "base64");
const head = `DSSEv1 ${envelope.payloadType.length} ${envelope.payloadType} ${payload.length} `;
const key = createPublicKey(readFileSync(pem));
const signature = Buffer.from(envelope.signatures[0].sig, "base64");
const isSigned = verify(null, Buffer.concat([Buffer.from(head), payload]), key, signature);
const [, , , origin, size, root] = readFileSync(proof, "utf8").split("\\n");
const leaf = createHash("sha256").update(Buffer.concat([Buffer.from([0]), bytes])).digest("base64");
const text = `${origin}\\n${size}\\n${root}\\n`;
const note = Buffer.from(readFileSync(proof, "utf8").trim().split(" ").at(-1), "base64");
console.log(isSigned, size === "1" && leaf === root, verify(null, Buffer.from(text), key, note.subarray(4)));
"""


def test_node_agrees_on_signature_leaf_and_checkpoint(judged, key, tmp_path):
    needs("node")
    (tmp_path / "key.pem").write_text(as_pem(key.public_key))
    command = ["node", "-e", _NODE, judged.record, tmp_path / "key.pem", judged.proof]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["true"] * 3
    judged.record.write_bytes(judged.record.read_bytes().replace(b'"payload":"ey', b'"payload":"eX'))
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[:2] == ["false"] * 2


def test_securesystemslib_reads_what_is_published(judged, key):
    dsse = pytest.importorskip("securesystemslib.dsse", reason="securesystemslib is not installed: NOT tested")
    import json

    from securesystemslib.signer import SSlibKey

    theirs = dsse.Envelope.from_dict(json.loads(judged.record.read_bytes()))
    public = SSlibKey(key.key_id, "ed25519", "ed25519", {"public": key.public_key.hex()})
    assert list(theirs.verify([public], 1)) == [key.key_id]


_GO = """package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func main() {
	envelope, err := os.ReadFile(os.Args[1])
	must(err)
	proof, err := os.ReadFile(os.Args[2])
	must(err)
	verifier, err := note.NewVerifier(os.Args[3])
	must(err)
	parts := bytes.SplitN(proof, []byte("\\n\\n"), 2)
	checkpoint, err := note.Open(parts[1], note.VerifierList(verifier))
	must(err)
	head := strings.Split(checkpoint.Text, "\\n")
	size, err := strconv.ParseInt(head[1], 10, 64)
	must(err)
	var root tlog.Hash
	raw, err := base64.StdEncoding.DecodeString(head[2])
	must(err)
	copy(root[:], raw)
	lines := strings.Split(string(parts[0]), "\\n")
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
	must(err)
	var path tlog.RecordProof
	for _, line := range lines[2:] {
		var hash tlog.Hash
		raw, err := base64.StdEncoding.DecodeString(line)
		must(err)
		copy(hash[:], raw)
		path = append(path, hash)
	}
	must(tlog.CheckRecord(path, size, root, index, tlog.RecordHash(envelope)))
	fmt.Println("it stands in the log")
}
"""


@pytest.fixture(scope="module")
def go_checker(tmp_path_factory):
    needs("go")
    if not GO_PATH.is_dir():
        pytest.skip("golang-golang-x-mod-dev is not installed: that Go's tlog agrees was NOT tested")
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(_GO)
    environment = {
        "PATH": "/usr/bin:/bin:/usr/local/bin",
        "GOPATH": "/usr/share/gocode",
        "GO111MODULE": "off",
        "GOCACHE": str(folder / "cache"),
        "GOFLAGS": "-mod=",
        "HOME": str(folder),
    }
    done = subprocess.run(
        ["go", "build", "-o", "checker", "main.go"], cwd=folder, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "checker"


def test_go_agrees_on_the_proof_and_the_checkpoint(go_checker, judged, key):
    async def revoke(count):
        async with open_project(judged.root) as project:
            for number in range(count):
                await project.certificates.revoke(judged.id, f"reason {number}")
            judged.proof.unlink()
            await project.certificates.repair()

    for count in (0, 1, 3):
        asyncio.run(revoke(count))
        origin = read_proof(judged.proof.read_bytes()).checkpoint.origin
        command = [go_checker, judged.record, judged.proof, as_note_key(key.public_key, origin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "it stands in the log\n")
    judged.record.write_bytes(judged.record.read_bytes() + b" ")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


def test_the_page_names_what_there_is():
    for target in re.findall(r"\]\((\.\./[^)#]+|[\w.]+\.md)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        assert isinstance(yaml.safe_load(block), dict)
    hooks = {each["id"] for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}
    assert set(re.findall(r"- id: ([\w-]+)", PAGE)) <= hooks


def test_the_options_of_the_page_and_of_the_action_are_those_of_the_gate():
    import typer

    from esper_agents.cli.gate.command import register

    app = typer.Typer()
    register(app)
    known = {name for param in typer.main.get_command(app).params for name in param.opts}
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    script = action["runs"]["steps"][-1]["run"]
    shown = [line for line in PAGE.splitlines() if line.startswith("esper gate")]
    assert shown
    assert set(re.findall(r"--[a-z]+(?:-[a-z]+)*", " ".join([*shown, script]))) <= known | {"--"}
    assert set(re.findall(r"^          ([a-z]+): ", PAGE, re.MULTILINE)) - {"fetch"} <= set(action["inputs"])


def test_nothing_that_is_given_to_the_action_becomes_a_part_of_its_script():
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    steps = action["runs"]["steps"]
    assert not [step for step in steps if "${{" in step.get("run", "")]
    assert all(re.search(r"@[0-9a-f]{40}$", step["uses"]) for step in steps if "uses" in step)


def given_to_the_gate(tmp_path, **given):
    """Run the script of the action with a gate that keeps what it is given."""
    needs("bash")
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    (tmp_path / "esper-gate/bin").mkdir(parents=True)
    program = tmp_path / "esper-gate/bin/esper"
    program.write_text('#!/bin/sh\nfor each in "$@"; do printf "%s\\0" "$each"; done; printf "\\n\\0"\n')
    program.chmod(0o755)
    known = {"TRUST": "ssh-ed25519 AAAA x", "PATHS": "", "REQUIRE": "APPROVED GO", "AGENTS": "", "SARIF": "s"}
    known |= {"JUNIT": "j", "RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": "m", "PATH": "/usr/bin:/bin"}
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", action["runs"]["steps"][-1]["run"]]
    done = subprocess.run(script, env=known | given, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    first, *others = done.stdout.split("\n\0")[:-1]
    formats = [each.split("\0")[each.split("\0").index("--format") + 1] for each in (first, *others)]
    assert formats == ["github", "markdown", "sarif", "junit"]
    return first.split("\0")[:-1]


@pytest.mark.parametrize(("said", "is_given"), [("true", True), ("false", False), ("", False), ("true; --json", False)])
def test_the_action_accepts_overrides_only_where_it_is_told_to(tmp_path, said, is_given):
    assert ("--accept-overrides" in given_to_the_gate(tmp_path, ACCEPT_OVERRIDES=said)) is is_given


@pytest.mark.parametrize("hostile", ["", "a b.py\nsrc", "$(touch made)", "; touch made", "--json", "`touch made`\n-x"])
def test_the_action_gives_the_gate_just_what_it_was_given(tmp_path, hostile):
    arguments = given_to_the_gate(tmp_path, PATHS=hostile)
    paths = arguments[arguments.index("--") + 1 :]
    assert paths == [each for each in hostile.split("\n") if each]
    assert arguments[:3] == ["gate", "--trusted-key", "ssh-ed25519 AAAA x"]
    assert not (tmp_path / "made").exists()
