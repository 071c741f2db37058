"""Archives of version 0.1.0, made by that version, as the current version finds them.

Each holds six certificates (one revoked, one overridden), a rotated signing key, and one session that waits for an
approval. The key of a project contains its path, so the archives are unpacked where they were made.
"""

from __future__ import annotations

import fcntl
import shutil
import tarfile
from pathlib import Path

import pytest
from places import Place
from sqlalchemy import create_engine, make_url

ROOT = Path("/tmp/esper-archive-0.1.0")  # noqa: S108 - see above; the lock beside it keeps other runs out


@pytest.fixture
def archive(rows_in, postgresql_url_if_wanted):
    """Return the project of an archive of version 0.1.0, with its rows in one of the two databases."""
    with Path(f"{ROOT}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(ROOT, ignore_errors=True)
        with tarfile.open(Path(__file__).with_name(f"archive_0_1_0_{rows_in}.tar.gz")) as packed:
            packed.extractall(ROOT, filter="data")
        (ROOT / "home" / "keys").chmod(0o700)
        (ROOT / "home" / "keys" / "signing-key.pem").chmod(0o600)
        yield _Archive(Place(ROOT / "shop", ROOT / "home"), postgresql_url_if_wanted)
        shutil.rmtree(ROOT)


class _Archive:
    """The command on an archive of version 0.1.0."""

    def __init__(self, place, url):
        self.place, self.env = place, {}
        if url is not None:
            engine = create_engine(make_url(url), isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.connection.cursor().execute((ROOT / "archive.sql").read_text())
            engine.dispose()
            self.env = {"ESPER_DATABASE_URL": url}

    def esper(self, *arguments, code=None):
        return self.place.esper(*arguments, code=code, env=self.env)


@pytest.fixture
def postgresql_url_if_wanted(rows_in, request):
    """Return the URL of an empty PostgreSQL database if the rows go there, else None."""
    if rows_in != "postgresql":
        return None
    return request.getfixturevalue("postgresql_url").render_as_string(hide_password=False)


@pytest.mark.both_databases
def test_an_archive_of_0_1_0_is_upgraded_verified_and_its_waiting_session_goes_on(archive, rows_in):
    archive.esper("db", "upgrade", code=0)

    verified = archive.esper("certificates", "verify", "--all", code=0)
    assert verified.stdout.count("crt_") >= 6
    assert "revoked" in verified.stdout
    assert "overridden by root to CONDITIONALLY_APPROVED" in verified.stdout

    # It asks before every call of `static-review`. What it would do today has changed: the user chooses.
    by = {"sqlite": "--pinned", "postgresql": "--accept"}[rows_in]
    for _ in range(8):
        (asked,) = archive.esper("approvals", "list", "--json", code=0).json
        assert asked["tool"] == "static-review"
        answered = archive.esper("approve", asked["id"], "--json")
        if answered.code == 2:
            assert "changed since session" in answered.stderr
            answered = archive.esper("resume", asked["session"], by, "--json")
        if not answered.json["questions"]:
            break
    assert (answered.json["certificate"]["status"], answered.code) == ("REQUIRES_REMEDIATION", 3)

    archive.esper("certificates", "repair", code=0)
    archive.esper("certificates", "verify", "--all", code=0)
