"""Exports: what is in them, that they never change, and that openssl and ssh-keygen agree with them."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from hashlib import sha256

import pytest
from archive_samples import made
from sqlalchemy import update

from esper_agents.archive.export import export
from esper_agents.archive.search.filters import Filter
from esper_agents.certificates.log.note import includes, is_signed_by, read_proof
from esper_agents.certificates.signing import dsse
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.signing.trusted_keys import trusted
from esper_agents.errors import UsageError
from esper_agents.paths import home
from esper_agents.storage.tables import certificate


@pytest.fixture
def logged(archived):
    archived.ids = archived.fill(*(made(number, component=f"part{number % 2}") for number in range(4)), logged=True)
    return archived


def exported(archived, to, wanted=None):
    return export(archived.store, archived.key, wanted or Filter(), to, trusted(home(), None).public_key)


def members(tar):
    with tarfile.open(tar) as opened:
        return {member.name: opened.extractfile(member).read() for member in opened.getmembers()}


def test_an_export_has_envelopes_proofs_views_keys_and_how_to_check_them(logged, tmp_path) -> None:
    made_now = exported(logged, tmp_path / "all.tar")
    found = members(tmp_path / "all.tar")
    assert (made_now.certificates, made_now.left_out, made_now.missing_keys) == (4, (), ())
    for identifier in logged.ids:
        for ending in (".dsse.json", ".tlog-proof", ".md", ".html"):
            assert found[f"certificates/{identifier}{ending}"]
    assert [json.loads(line)["id"] for line in found["index.jsonl"].splitlines()] == logged.ids
    assert {name.rpartition(".")[2] for name in found if name.startswith("keys/")} == {"pem", "pub", "vkey"}
    assert b"openssl" in found["README.md"]
    assert not any(name.startswith("/") or ".." in name for name in found)


def test_every_envelope_is_signed_and_every_proof_leads_to_a_signed_checkpoint(logged, tmp_path) -> None:
    exported(logged, tmp_path / "all.tar")
    found = members(tmp_path / "all.tar")
    key = signing_key(home()).public_key
    for identifier in logged.ids:
        data = found[f"certificates/{identifier}.dsse.json"]
        proof = read_proof(found[f"certificates/{identifier}.tlog-proof"])
        assert dsse.is_signed_by(dsse.read_envelope(data), key)
        assert includes(proof, data)
        assert is_signed_by(proof.note, proof.checkpoint.origin, key)


def test_the_same_archive_gives_the_same_bytes_as_a_tar_and_as_a_folder(logged, tmp_path) -> None:
    exported(logged, tmp_path / "one.tar")
    exported(logged, tmp_path / "other.tar")
    one, other = ((tmp_path / name).read_bytes() for name in ("one.tar", "other.tar"))
    assert sha256(one).hexdigest() == sha256(other).hexdigest()
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "new", tmp_path / "empty"):
        exported(logged, folder)
        files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        assert files == members(tmp_path / "one.tar")


def test_an_export_keeps_to_a_filter(logged, tmp_path) -> None:
    made_now = exported(logged, tmp_path / "some.tar", Filter(component="part1"))
    assert made_now.certificates == 2


@pytest.mark.parametrize("name", ["there.tar", "there"])
def test_nothing_is_written_over(logged, tmp_path, name) -> None:
    there = tmp_path / name
    there.write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        exported(logged, there)
    assert there.read_text() == "mine"
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("mine")
    dangling = tmp_path / "link.tar"
    dangling.symlink_to(tmp_path / "elsewhere")
    for each in (full, dangling):
        with pytest.raises(UsageError, match="already exists"):
            exported(logged, each)
    with pytest.raises(UsageError, match="does not exist"):
        exported(logged, tmp_path / "no" / "folder.tar")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".esper-")) == []


def test_a_certificate_that_was_changed_or_never_logged_is_left_out_and_named(logged, tmp_path) -> None:
    unlogged = logged.add(made(50))
    changed = logged.ids[1]
    with logged.store.writing() as transaction:
        forged = update(certificate).where(certificate.c.id == changed).values(statement=b"{}")
        transaction.connection.execute(forged)
    made_now = exported(logged, tmp_path / "rest.tar")
    assert {each.id: each.is_tampered for each in made_now.left_out} == {unlogged: False, changed: True}
    assert made_now.certificates == 3
    assert not any(changed in name for name in members(tmp_path / "rest.tar"))


def test_a_key_that_nobody_trusts_is_named_and_not_put_beside_them(logged, tmp_path) -> None:
    made_now = export(logged.store, logged.key, Filter(), tmp_path / "all.tar", lambda _: None)
    assert made_now.keys == ()
    assert made_now.missing_keys == (signing_key(home()).key_id,)
    assert not any(name.startswith("keys/") for name in members(tmp_path / "all.tar"))


def commands_of(readme: str, identifier: str, key: str) -> list[str]:
    """Return the commands that the page tells people to type."""
    lines = [line.strip() for line in readme.splitlines() if line.startswith("    ")]
    return [line.replace("ID.", f"{identifier}.").replace("KEY.", f"{key}.") for line in lines]


@pytest.mark.sample(2)
@pytest.mark.parametrize("flip", [None, b"statement", b"signature"])
def test_the_commands_of_the_page_verify_what_was_signed_and_nothing_else(logged, tmp_path, flip) -> None:
    for program in ("openssl", "ssh-keygen", "sed", "base64", "bash"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}: what the page of an export tells people to type was NOT tested")
    folder = tmp_path / "out"
    exported(logged, folder)
    key = next((folder / "keys").glob("*.pem")).name.removesuffix(".pem")
    fingerprint, payload, signature, signed, verify, _ = commands_of(
        (folder / "README.md").read_text("utf-8"), logged.ids[0], key
    )
    shown = subprocess.run(["bash", "-c", fingerprint], cwd=folder, capture_output=True, text=True, check=True)
    assert signing_key(home()).key_id in shown.stdout
    inside = folder / "certificates"
    for command in (payload, signature):
        subprocess.run(["bash", "-ec", command], cwd=inside, check=True)
    if flip:
        place = inside / ("statement.json" if flip == b"statement" else "signature")
        data = bytearray(place.read_bytes())
        data[len(data) // 2] ^= 1
        place.write_bytes(data)
    subprocess.run(["bash", "-ec", signed], cwd=inside, check=True)
    done = subprocess.run(["bash", "-c", verify], cwd=inside, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (flip is None)
    assert ("Signature Verified Successfully" in done.stdout) is (flip is None)
