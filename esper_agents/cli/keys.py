"""`esper keys`: commands for the signing key and the trusted keys."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.key_output import as_data, described, show_own, show_refused, show_trusted
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption, ReasonOption
from esper_agents.cli.terminal import echo, echo_json
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import UsageError
from esper_agents.paths import home

if TYPE_CHECKING:
    from esper_agents.archive.changes.key_changes import ChangeReason
    from esper_agents.certificates.signing.allowed_signers import Signer
    from esper_agents.domain.project import Project

keys_app = typer.Typer(no_args_is_help=True, help="Manage signing keys and trusted keys")


class KeyFormat(StrEnum):
    """Format of a public key."""

    PEM = "pem"
    SSH = "ssh"
    NOTE = "note"
    ALLOWED_SIGNERS = "allowed-signers"


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(keys_app, name="keys")


@keys_app.command()
def show(project: ProjectOption = HERE, as_json: JsonOption = False) -> None:
    """Show the signing key and the trusted keys.

    Creates no key.

    Examples:
      esper keys show
    """
    from esper_agents.certificates.signing.signing_key import existing_key
    from esper_agents.certificates.signing.trusted_keys import trusted

    found = _project(project)
    key = existing_key(home())
    keys = trusted(home(), Path(found.root), found.key)
    if as_json:
        echo_json(as_data(key.public_key if key else None, keys))
        return
    show_own(key.public_key if key else None)
    show_trusted(keys)


@keys_app.command()
def export(
    form: Annotated[KeyFormat, typer.Option("--format", help="Key format")] = KeyFormat.SSH,
    name: Annotated[str, typer.Option(metavar="NAME", help="Owner; for `note`, the log [default: you; this log]")] = "",
    project: ProjectOption = HERE,
) -> None:
    """Print the public signing key.

    Give it to people who verify your certificates. The key is created if there is none.

    Examples:
      esper keys export
      esper keys export --format allowed-signers --name ann@example.org
    """
    from esper_agents.certificates.signing.allowed_signers import own_signer
    from esper_agents.certificates.signing.signing_key import as_note_key, as_pem, as_ssh, signing_key

    public_key = signing_key(home()).public_key
    match form:
        case KeyFormat.PEM:
            echo(as_pem(public_key).removesuffix("\n"))
        case KeyFormat.SSH:
            echo(f"{as_ssh(public_key)} {_named(name)}")
        case KeyFormat.NOTE:
            echo(as_note_key(public_key, name or _origin(project)))
        case KeyFormat.ALLOWED_SIGNERS:
            echo(own_signer(_named(name), public_key).line())


@keys_app.command()
def trust(
    key: Annotated[
        list[str] | None, typer.Argument(metavar="KEY|FILE", help="OpenSSH key, signed-note key, or a file with keys")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the key owner [default: comment of the key]")] = "",
    of_project: Annotated[
        bool, typer.Option("--from-project", "--project", help="Trust the current content of .esper/trusted_keys")
    ] = False,
) -> None:
    """Trust a public key.

    Certificates signed by the key are verified as authentic from now on.

    Examples:
      esper keys trust ~/ann.pub --name ann@example.org
      esper keys trust ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA... ann@example.org
      esper keys trust --project
    """
    if of_project == bool(key):
        raise UsageError("give either a key or --from-project", remedy="run `esper keys trust --help`")
    if of_project:
        _accept_project()
        return
    from esper_agents.certificates.signing.trusted_keys import home_file
    from esper_agents.certificates.signing.trusted_keys import trust as trust_it

    signer = _signer(" ".join(key or ()), name)
    is_new = trust_it(home(), signer)
    outline(f"{'trusted' if is_new else 'trusted already'}: {described(signer)}")
    outline(f"kept in {home_file(home())}; remove the line to trust it no longer", 1)


@keys_app.command()
def rotate(
    reason: ReasonOption = "",
    as_json: JsonOption = False,
) -> None:
    """Replace the signing key.

    Adds a signed notice to every transparency log of this data directory. Certificates signed by the old key remain
    authentic. Run the command again if it was interrupted.

    Examples:
      esper keys rotate --reason "once a year"
    """
    from esper_agents.archive.changes.key_changes import rotate as change
    from esper_agents.certificates.signing.signing_key import as_ssh, key_id_of

    done = change(home(), _said(reason))
    if as_json:
        echo_json({"old": key_id_of(done.old), "new": key_id_of(done.new), "logs": list(done.logs)})
        return
    outline(f"retired: {key_id_of(done.old)}")
    outline(f"new signing key: {key_id_of(done.new)}")
    _show_logs(done.logs)
    outline_command("for those who trust the old one", f'esper keys trust "{as_ssh(done.new)}" --name {_named("")}')


@keys_app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Fingerprint or public key")],
    reason: ReasonOption,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Revoke a key.

    Use this for a stolen key: a signed notice in the log invalidates all later signatures of the key. Earlier
    certificates remain authentic by their position in the log; check the newest ones.

    Examples:
      esper keys revoke SHA256:sXNYbnW8eGyK3VzvgNix7e4mgjCz0+X7ePOgsq0s9bs --reason "the laptop is gone"
    """
    from esper_agents.archive.changes.key_changes import revoke as change
    from esper_agents.certificates.signing.signing_key import key_id_of

    done = change(home(), _ed25519(key), _said(reason), project_key=_project(project).key)
    if as_json:
        echo_json({"revoked": key_id_of(done.key), "logs": list(done.logs), "it_brought": list(done.brought)})
        return
    outline(f"revoked: {key_id_of(done.key)}")
    _show_logs(done.logs)
    for each in done.brought:
        outline(f"this key introduced {each} to a log; that key stays valid unless you revoke it as well")


def _ed25519(text: str) -> bytes:
    from esper_agents.archive.changes.key_changes import known_key
    from esper_agents.certificates.signing.key_input import claimed_signer
    from esper_agents.certificates.signing.public_keys import is_key_id

    raw = known_key(home(), text) if is_key_id(text) else claimed_signer(text, "anybody").raw
    if not raw:
        raise UsageError(f"unknown Ed25519 key {text[:200]!r}", remedy="run `esper keys show`")
    return raw


def _said(reason: str) -> ChangeReason:
    from esper_agents.archive.changes.key_changes import ChangeReason
    from esper_agents.certificates.signing.key_input import this_user

    return ChangeReason(this_user(), reason)


def _show_logs(logs: tuple[str, ...]) -> None:
    for each in logs:
        outline(f"entered in {each}", 1)
    if not logs:
        outline("there is no log here yet to enter it in", 1)


def _accept_project() -> None:
    from esper_agents.certificates.signing.allowed_signers import read_signers
    from esper_agents.certificates.signing.trusted_keys import accept, project_file, project_keys

    found = _project(HERE)
    place = project_file(Path(found.root))
    data = project_keys(Path(found.root))
    if data is None:
        raise UsageError(
            f"{str(place)!r} is no plain file of keys",
            remedy="write it: one line of `esper keys export` for each person",
        )
    # Read the file once, so that the printed keys are the accepted keys.
    read = read_signers(data, ".esper/trusted_keys")
    accept(home(), found.key, data)
    outline(f"accepted: {number_of(len(read.signers), 'key')} of {found.name}, as long as the file stays as it is")
    for each in read.signers:
        outline(described(each), 1)
    show_refused(read.refused)


def _signer(text: str, name: str) -> Signer:
    from esper_agents.certificates.signing.key_input import claimed_signer

    return claimed_signer(text, name)


def _project(where: Path) -> Project:
    from esper_agents.git.find_project import find_project

    return find_project([where], Path.cwd())


def _named(name: str) -> str:
    from esper_agents.certificates.signing.allowed_signers import is_principal
    from esper_agents.certificates.signing.key_input import this_user

    if name and not is_principal(name):
        raise UsageError(f"invalid name {name!r}", remedy="use letters, digits and ._+@=:/~- only")
    return name or this_user()


def _origin(project: Path) -> str:
    from esper_agents.archive.log_discovery import origin_of

    found = origin_of(home(), _project(project))
    if not found:
        raise UsageError("no certificate was issued here yet, so the log has no name", remedy="say one with --name")
    return found
