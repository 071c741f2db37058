"""Go's note and tlog packages as a checker that shares nothing with ours."""

from __future__ import annotations

import os
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest
from log_samples import notice_id

from esper_agents.certificates.log import merkle, transparency_log
from esper_agents.certificates.signing.dsse import envelope_bytes
from esper_agents.certificates.signing.signing_key import as_note_key

GOPATH = Path("/usr/share/gocode")
SIZE, OLD = 11, 6


@pytest.fixture(scope="module")
def checker(tmp_path_factory):
    go = shutil.which("go")
    if go is None or not (GOPATH / "src" / "golang.org" / "x" / "mod" / "sumdb" / "tlog").is_dir():
        pytest.skip("no Go with golang-golang-x-mod-dev: proofs and checkpoints were NOT checked by Go")
    folder = tmp_path_factory.mktemp("go")
    built = folder / "check_log"
    places = {"GOPATH": str(GOPATH), "GOCACHE": str(folder / "cache"), "GO111MODULE": "off", "GOFLAGS": ""}
    source = Path(__file__).with_name("check_log.go")
    subprocess.run([go, "build", "-o", str(built), str(source)], check=True, env={**os.environ, **places})
    return built


@pytest.fixture
def arguments(archive, tmp_path):
    archive.grow(SIZE)
    found = []
    with archive.store.reading() as connection:
        for each in range(SIZE):
            envelope, proof = tmp_path / f"{each}.dsse.json", tmp_path / f"{each}.tlog-proof"
            envelope.write_bytes(envelope_bytes(transparency_log.envelope(connection, archive.log_id, notice_id(each))))
            proof.write_text(transparency_log.proof(connection, archive.log_id, notice_id(each)))
            found += [envelope, proof]
        hashes = merkle.consistency(OLD, SIZE, transparency_log.reader(connection, archive.log_id))
        key = as_note_key(archive.key.public_key, transparency_log.origin(connection, archive.log_id))
    lines = [archive.logged[OLD - 1].root, *hashes]
    consistency = tmp_path / "consistency"
    consistency.write_text("\n".join([str(OLD), *(b64encode(line).decode() for line in lines)]) + "\n")
    return [key, *found, consistency]


def said(checker, arguments):
    done = subprocess.run([checker, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_go_checks_every_proof_the_checkpoint_and_that_the_log_only_grew(checker, arguments):
    assert said(checker, arguments) == (0, "checked")


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize("changed", [1, 2, -1])
def test_go_refuses_what_was_changed(checker, arguments, changed):
    file = arguments[changed]
    text = file.read_text()
    at = text.index("\n") + 2 if changed == -1 else len(text) // 3
    file.write_text(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :])
    assert said(checker, arguments)[0] == 1
