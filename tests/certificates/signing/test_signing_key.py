from __future__ import annotations

import asyncio
import copy
import json
import logging
import os
import pickle
import re
import stat
import subprocess
import sys
import traceback
from binascii import a2b_base64

import pytest
from cages import HELD, cage_for

from esper_agents.certificates.signing.public_keys import is_signature
from esper_agents.certificates.signing.signing_key import (
    VARIABLE,
    existing_key,
    key_file,
    load,
    locked_folder,
    secret_places,
    signing_key,
    take_key_file,
)
from esper_agents.errors import BusyError, EsperError, StorageError, UsageError
from esper_agents.git.process import running_git
from esper_agents.storage import locks
from esper_agents.torchlab import sandbox

IS_ROOT = os.geteuid() == 0


@pytest.fixture
def made(tmp_path):
    """Return an Ed25519 key in PEM that openssl made."""
    place = tmp_path / "ci.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", place], check=True)
    place.chmod(0o600)
    return place


def mode(place):
    return stat.S_IMODE(place.stat().st_mode)


def private_bytes(place):
    return a2b_base64(place.read_text().split("\n")[1])[-32:]


def problem_of(error):
    """Return everything that an error could show to anybody."""
    shown = "".join(traceback.format_exception(error))
    return f"{error!r} {error} {error.__dict__} {shown} {pickle.dumps(error)!r}"


def test_a_key_is_made_at_first_use_and_is_the_same_ever_after(tmp_path):
    first = signing_key(tmp_path / "home")
    assert signing_key(tmp_path / "home").public_key == first.public_key
    assert is_signature(first.sign(b"message"), b"message", first.public_key)
    assert not is_signature(first.sign(b"message"), b"another", first.public_key)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_only_its_owner_can_read_it_whatever_the_umask(tmp_path, umask):
    home = tmp_path / "home"
    home.mkdir()
    before = os.umask(umask)
    try:
        if umask == 0o777 and not IS_ROOT:
            pytest.skip("a folder that its owner cannot enter was NOT tried: this is not root")
        signing_key(home)
    finally:
        os.umask(before)
    assert mode(key_file(home)) == 0o600
    assert mode(key_file(home).parent) & 0o077 == 0


def test_nothing_half_written_is_left(tmp_path):
    signing_key(tmp_path)
    assert sorted(path.name for path in (tmp_path / "keys").iterdir()) == ["lock", "signing-key.pem"]


def test_what_was_left_half_written_is_replaced(tmp_path):
    (tmp_path / "keys").mkdir(mode=0o700)
    (tmp_path / "keys" / "signing-key.pem.new").write_bytes(b"-----BEGIN")
    signing_key(tmp_path)
    assert not (tmp_path / "keys" / "signing-key.pem.new").exists()


def test_looking_for_a_key_makes_none(tmp_path):
    assert existing_key(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_32_processes_at_once_get_one_key(tmp_path):
    program = (
        "import sys; from pathlib import Path; sys.stdin.read(1); "
        "from esper_agents.certificates.signing.signing_key import signing_key; "
        "key = signing_key(Path(sys.argv[1])); print(key.key_id, key.sign(b'm').hex())"
    )
    home = tmp_path / "home"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(32)
    ]
    for each in started:
        each.stdin.write("g")
        each.stdin.flush()
    said = [each.communicate(timeout=240)[0] for each in started]
    assert [each.returncode for each in started] == [0] * 32
    assert set(said) == {f"{signing_key(home).key_id} {signing_key(home).sign(b'm').hex()}\n"}
    assert sorted(path.name for path in (home / "keys").iterdir()) == ["lock", "signing-key.pem"]


def test_a_process_that_dies_while_it_makes_the_key_leaves_the_next_one_to_make_it(tmp_path):
    program = (
        "import os, sys; from pathlib import Path; from esper_agents.certificates.signing import signing_key\n"
        "os.replace = lambda *_, **__: os.kill(os.getpid(), 9)\n"
        "signing_key.signing_key(Path(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], check=False)
    assert done.returncode == -9
    assert existing_key(tmp_path) is None
    assert signing_key(tmp_path).key_id == signing_key(tmp_path).key_id


@pytest.mark.parametrize("bits", [0o604, 0o640, 0o660, 0o644, 0o777, 0o601])
def test_a_key_that_others_can_get_at_is_refused_with_what_mends_it(tmp_path, bits):
    signing_key(tmp_path)
    key_file(tmp_path).chmod(bits)
    with pytest.raises(UsageError, match="other users can access") as refused:
        signing_key(tmp_path)
    command = re.search("`(chmod 600 .*?)`", refused.value.remedy)[1]
    subprocess.run(command, shell=True, check=True)  # noqa: S602 - as a person would
    assert signing_key(tmp_path)


def test_the_remedy_can_be_pasted_whatever_the_folder_is_called(tmp_path):
    home = tmp_path / "a b$(touch pwned); 'c"
    signing_key(home)
    key_file(home).chmod(0o644)
    with pytest.raises(UsageError) as refused:
        signing_key(home)
    command = re.search("`(chmod 600 .*)`;", refused.value.remedy)[1]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)  # noqa: S602 - as a person would
    assert mode(key_file(home)) == 0o600
    assert not (tmp_path / "pwned").exists()


def test_no_key_is_made_in_a_folder_that_others_can_enter(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys").chmod(0o755)
    with pytest.raises(UsageError, match="other users can access") as refused:
        signing_key(tmp_path)
    assert "chmod 700" in refused.value.remedy
    assert list((tmp_path / "keys").iterdir()) == []


@pytest.mark.skipif(not IS_ROOT, reason="files of another user were NOT tried: this is not root")
def test_a_key_of_another_user_is_refused(tmp_path, made, monkeypatch):
    os.chown(made, 12345, 12345)
    monkeypatch.setenv(VARIABLE, str(made))
    with pytest.raises(UsageError, match="belongs to another user") as refused:
        signing_key(tmp_path)
    assert "chown" in refused.value.remedy


@pytest.mark.parametrize("keep", [0, 1, 27, 28, 60, 110])
def test_a_broken_key_is_refused_and_never_replaced(tmp_path, keep):
    secret = signing_key(tmp_path)
    place = key_file(tmp_path)
    broken = place.read_bytes()[:keep]
    place.write_bytes(broken)
    with pytest.raises(UsageError, match="contains no unencrypted Ed25519 private key") as refused:
        signing_key(tmp_path)
    assert place.read_bytes() == broken
    assert refused.value.remedy
    assert secret.key_id


@pytest.mark.parametrize(
    "junk", [b"", b"\0" * 200, b"\xff" * 20_000, b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", b"-----BEGIN"]
)
def test_what_is_no_key_is_refused(tmp_path, monkeypatch, junk):
    place = tmp_path / "junk.pem"
    place.write_bytes(junk)
    place.chmod(0o600)
    monkeypatch.setenv(VARIABLE, str(place))
    with pytest.raises(UsageError, match="contains no unencrypted Ed25519 private key"):
        signing_key(tmp_path / "home")


@pytest.mark.sample(3)
@pytest.mark.parametrize("algorithm", ["rsa", "ec", "ed448", "x25519", "encrypted", "ssh-rsa", "ssh-encrypted"])
def test_a_key_of_another_kind_or_with_a_passphrase_is_refused(tmp_path, monkeypatch, algorithm):
    place = tmp_path / "other"
    make = {
        "rsa": ["openssl", "genpkey", "-quiet", "-algorithm", "rsa"],
        "ec": ["openssl", "genpkey", "-algorithm", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
        "ed448": ["openssl", "genpkey", "-algorithm", "ed448"],
        "x25519": ["openssl", "genpkey", "-algorithm", "x25519"],
        "encrypted": ["openssl", "genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:secret"],
        "ssh-rsa": ["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f"],
        "ssh-encrypted": ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f"],
    }[algorithm]
    subprocess.run([*make, *(() if "ssh" in algorithm else ("-out",)), place], check=True)
    place.chmod(0o600)
    monkeypatch.setenv(VARIABLE, str(place))
    with pytest.raises(UsageError, match="contains no unencrypted Ed25519 private key"):
        signing_key(tmp_path / "home")


@pytest.mark.parametrize("what", ["missing", "folder", "fifo", "device"])
def test_what_is_no_file_is_refused_and_hangs_nobody(tmp_path, monkeypatch, what):
    place = tmp_path / "place"
    match what:
        case "folder":
            place.mkdir()
        case "fifo":
            os.mkfifo(place, 0o600)
        case "device":
            place.symlink_to("/dev/zero")
    monkeypatch.setenv(VARIABLE, str(place))
    with pytest.raises(UsageError, match=r"cannot be read|is not a file"):
        signing_key(tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_home_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "home").write_text("a file")
    with pytest.raises(StorageError, match="cannot be written") as refused:
        signing_key(tmp_path / "home")
    assert "ESPER_HOME" in refused.value.remedy


def test_the_given_key_wins_and_no_other_is_made(tmp_path, made, monkeypatch):
    signing_key(tmp_path / "home")
    monkeypatch.setenv(VARIABLE, str(made))
    given = signing_key(tmp_path / "home")
    assert given.public_key == load(made).public_key
    assert given.public_key != load(key_file(tmp_path / "home")).public_key
    signing_key(tmp_path / "new home")
    assert not (tmp_path / "new home").exists()


def test_the_given_key_may_be_in_openssh_s_own_form(tmp_path, monkeypatch):
    place = tmp_path / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place], check=True)
    monkeypatch.setenv(VARIABLE, str(place))
    said = subprocess.run(["ssh-keygen", "-l", "-f", place], capture_output=True, text=True, check=True).stdout
    assert said.split()[1] == signing_key(tmp_path / "home").key_id


def test_the_given_key_is_read_once_and_leaves_the_environment(tmp_path, made, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(made))
    first = signing_key(tmp_path)
    assert VARIABLE not in os.environ
    made.unlink()
    assert signing_key(tmp_path).key_id == first.key_id


def test_another_key_given_later_is_taken(tmp_path, made, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(made))
    first = signing_key(tmp_path)
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", made], check=True)
    monkeypatch.setenv(VARIABLE, str(made))
    assert signing_key(tmp_path).key_id != first.key_id


def test_an_empty_variable_gives_no_key(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "")
    assert existing_key(tmp_path) is None
    assert VARIABLE not in os.environ


def test_the_private_half_is_in_nothing_that_is_shown(tmp_path, caplog):
    with caplog.at_level(logging.DEBUG):
        key = signing_key(tmp_path)
        key.sign(b"message")
    secret = private_bytes(key_file(tmp_path))
    shown = f"{key!r} {key} {[key]} {key.public_key.hex()} {dir(key)} {caplog.text}"
    assert repr(key) == f"SigningKey({key.key_id})"
    for form in (secret.hex(), repr(secret), repr(secret)[2:-1], str(list(secret))):
        assert form not in shown
    assert not hasattr(key, "__dict__")


@pytest.mark.parametrize("copying", [pickle.dumps, copy.copy, copy.deepcopy, json.dumps])
def test_a_key_is_not_copied_out_of_its_process(tmp_path, copying):
    with pytest.raises(TypeError):
        copying(signing_key(tmp_path))


def test_no_error_shows_what_a_broken_key_file_holds(tmp_path):
    signing_key(tmp_path)
    place = key_file(tmp_path)
    text = place.read_text()
    secret = text.split("\n")[1]
    for broken in (
        text[:-30],
        text.replace("PRIVATE", "PUBLIC"),
        text.replace(secret, secret[:40] + "*" + secret[41:]),
    ):
        place.write_text(broken)
        with pytest.raises(EsperError) as refused:
            signing_key(tmp_path)
        assert secret[30:40] not in problem_of(refused.value)
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__


def test_a_git_that_we_start_does_not_see_where_the_key_is(project, made, monkeypatch):
    # Not taken yet: as if git ran before anything was signed.
    monkeypatch.setenv(VARIABLE, str(made))
    with running_git(project, "-c", f"alias.seen=!printenv {VARIABLE} || echo nothing", "seen") as git:
        assert git.answers.read().split() == [b"nothing"]


def test_no_child_at_all_sees_it_once_it_is_taken(made, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(made))
    take_key_file()
    done = subprocess.run(
        [sys.executable, "-c", f"import os; print({VARIABLE!r} in os.environ)"], capture_output=True, check=True
    )
    assert done.stdout == b"False\n"


def test_user_code_s_environment_has_neither_the_file_nor_its_name(tmp_path, made, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(made))
    seen = sandbox.environment(tmp_path)
    done = subprocess.run(["env"], env=seen, capture_output=True, check=True, text=True)
    assert VARIABLE not in done.stdout
    assert str(made) not in done.stdout


def test_the_project_s_tests_do_not_see_it(project, made, monkeypatch):
    from esper_agents.tools.run_tests import run_tests
    from esper_agents.tools.tool import ToolContext

    (project / "test_it.py").write_text(
        f"import os\n\ndef test_it():\n    assert {VARIABLE!r} not in os.environ, 'it is there'\n"
    )
    monkeypatch.setenv(VARIABLE, str(made))
    result = asyncio.run(run_tests.function(ToolContext(project), ["test_it.py"]))
    assert "1 passed" in result.summary


@pytest.mark.parametrize("how", HELD)
def test_sandboxed_code_cannot_read_the_keys(tmp_path, project, how):
    home = tmp_path / "home"
    signing_key(home)
    place = str(key_file(home))
    with cage_for(how, tmp_path, project, hidden=secret_places(home)) as cage:
        read = (f"open({place!r}).read()", f"import os; os.open({place!r}, os.O_RDONLY)", f"open({place!r}, 'a')")
        assert cage.attempts(*read) == []
        assert cage.attempts("open('/proc/self/status').read()") != []


@pytest.mark.sample(4)
@pytest.mark.parametrize("how", HELD)
@pytest.mark.parametrize("inside", ["home", "given"])
def test_sandboxed_code_cannot_read_keys_that_lie_in_the_project(  # noqa: PLR0917 - fixtures
    tmp_path, project, how, inside, made, monkeypatch
):
    home = (project if inside == "home" else tmp_path) / "home"
    signing_key(home)
    place = key_file(home)
    if inside == "given":
        place = project / "ci.pem"
        made.rename(place)
        monkeypatch.setenv(VARIABLE, str(place))
    secret = place.read_text().split("\n")[1]
    with cage_for(how, tmp_path, project, hidden=secret_places(home)) as cage:
        code = f"try:\n    result = open({str(place)!r}).read()\nexcept OSError:\n    result = ''"
        assert secret not in cage.run(code)
        assert "import torch" in cage.run(f"result = open({str(project / 'train.py')!r}).read()")


def test_without_a_sandbox_nothing_but_the_user_s_own_rights_protects_the_key(tmp_path, project):
    """A person who says --no-sandbox trusts the code with everything that they can read; the page on keys says so."""
    home = tmp_path / "home"
    signing_key(home)
    with cage_for("none", tmp_path, project, hidden=secret_places(home)) as cage:
        assert "PRIVATE KEY" in cage.run(f"result = open({str(key_file(home))!r}).read()")


def test_the_command_line_takes_the_variable_before_anything_else_runs(tmp_path, made):
    program = (
        "import os, sys; from esper_agents.cli import main; sys.argv = ['esper', 'doctor', '--help']\n"
        f"main._run = lambda: print({VARIABLE!r} in os.environ)\n"
        "main.main()"
    )
    environment = {**os.environ, VARIABLE: str(made), "ESPER_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"


def test_one_process_at_a_time_is_in_the_folder(tmp_path):
    program = (
        "import sys; from pathlib import Path\n"
        "from esper_agents.certificates.signing.signing_key import locked_folder\n"
        "print('asked', flush=True)\n"
        "with locked_folder(Path(sys.argv[1])) as folder: (folder / 'in').touch()"
    )
    with locked_folder(tmp_path) as folder:
        other = subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE)
        assert other.stdout.readline() == b"asked\n"
        # It has asked or is about to; as long as we are in here, it is not.
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(timeout=0.5)
        assert not (folder / "in").exists()
    assert other.wait(timeout=60) == 0
    other.stdout.close()
    assert (tmp_path / "keys" / "in").exists()


def test_a_folder_that_somebody_who_is_stopped_is_in_is_waited_for_within_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE_S", 0.05)
    with locked_folder(tmp_path), pytest.raises(BusyError, match="held the lock"):
        signing_key(tmp_path)
    assert signing_key(tmp_path).key_id
