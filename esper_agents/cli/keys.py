"""`esper keys`: commands for the signing key and the trusted keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.key_output import as_data, show_own, show_refused, show_trusted, summary
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption, ReasonOption
from esper_agents.cli.terminal import echo, echo_json, is_interactive, one_line
from esper_agents.domain.key_format import KeyFormat
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import ExitCode, UsageError

_FINGERPRINT, _SIGNS = "SHA256:", "ssh-ed25519"
keys_app = typer.Typer(no_args_is_help=True, help="Manage signing keys and trusted keys")


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
    from esper_agents.api import list_keys

    found = list_keys(project)
    if as_json:
        echo_json(as_data(found))
        return
    show_own(found)
    show_trusted(found)


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
    from esper_agents.api import export_key

    echo(export_key(form, name, project))


@keys_app.command()
def trust(
    key: Annotated[
        list[str] | None, typer.Argument(metavar="KEY|FILE", help="Public key, file with keys, or fingerprint")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the key owner [default: comment of the key]")] = "",
    of_project: Annotated[
        bool, typer.Option("--from-project", help="Trust the current content of .esper/trusted_keys")
    ] = False,
    project: ProjectOption = HERE,
) -> None:
    """Trust a public key.

    Certificates signed by the key are verified as authentic from now on. A file may contain several keys, such as the
    list that a code host serves at /NAME.keys; only Ed25519 keys sign certificates, the others may countersign. A
    fingerprint names a key that the project publishes: compare it with its owner first; this needs a terminal.

    Examples:
      esper keys trust ~/ann.pub --name ann@example.org
      esper keys trust ann.keys --name ann@example.org
      esper keys trust SHA256:sXNYbnW8eGyK3VzvgNix7e4mgjCz0+X7ePOgsq0s9bs --name ann@example.org
      esper keys trust ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA... ann@example.org
      esper keys trust --from-project
    """
    if of_project == bool(key):
        raise UsageError("give either a key or --from-project", remedy="run `esper keys trust --help`")
    if of_project:
        _accept_project(project)
        return
    from esper_agents.api import trust_keys

    given = " ".join(key or ())
    if given.startswith(_FINGERPRINT):
        given, name = _confirmed(given, name, project)
    done = trust_keys(given, name)
    for each in done.keys:
        outline(f"{'trusted' if each.is_new else 'trusted already'}: {summary(each.key)}")
        if each.key.kind != _SIGNS:
            outline("it may countersign; certificates are signed with Ed25519 keys only", 1)
    show_refused(done.refused)
    outline(f"kept in {done.keys[0].file}; remove a line to trust its key no longer", 1)


@keys_app.command()
def enroll(
    key: Annotated[list[str], typer.Argument(metavar="KEY|FILE", help="Public key, file with keys, or fingerprint")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the worker [default: comment of the key]")] = "",
    reason: ReasonOption = "",
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Enroll the key of a worker in the log.

    Adds a notice, signed with your key, to every transparency log of this data directory. Whoever trusts your key then
    accepts what the worker signs, and what it signed before. Compare the fingerprint with the machine of the worker
    first.

    Examples:
      esper keys enroll worker-1.pub --name worker-1@example.org
      esper keys enroll SHA256:sXNYbnW8eGyK3VzvgNix7e4mgjCz0+X7ePOgsq0s9bs --name worker-1@example.org
    """
    from esper_agents.api import enroll_keys

    given = " ".join(key)
    if given.startswith(_FINGERPRINT):
        given, name = _confirmed(given, name, project)
    done = enroll_keys(given, name, reason)
    if as_json:
        enrolled = [{"name": each.name, "key_id": each.key_id, "public_key": each.public_key} for each in done.keys]
        echo_json({"enrolled": enrolled, "logs": list(done.logs)})
        return
    for each in done.keys:
        outline(f"enrolled: {summary(each)}")
    for log in done.logs:
        outline(f"entered in {log}", 1)
    if not done.logs:
        outline("every log contains it already", 1)
    show_refused(done.refused)


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
    from esper_agents.api import rotate_key

    done = rotate_key(reason)
    if as_json:
        echo_json({"old": done.old.key_id, "new": done.new.key_id, "logs": list(done.logs)})
        return
    outline(f"retired: {done.old.key_id}")
    outline(f"new signing key: {done.new.key_id}")
    _show_logs(done.logs)
    outline_command(
        "for those who trust the old one", f'esper keys trust "{done.new.public_key}" --name {done.new.name}'
    )


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
    from esper_agents.api import revoke_key

    done = revoke_key(key, reason, project)
    if as_json:
        echo_json({"revoked": done.key.key_id, "logs": list(done.logs), "it_brought": list(done.introduced)})
        return
    outline(f"revoked: {done.key.key_id}")
    _show_logs(done.logs)
    for each in done.introduced:
        outline(f"this key introduced {each} to a log; that key stays valid unless you revoke it as well")


def _confirmed(key_id: str, name: str, project: Path) -> tuple[str, str]:
    """Return a published key and its owner after the user confirmed its fingerprint at the terminal.

    Raises:
        UsageError: There is no terminal, or the project publishes no such key.
    """
    from esper_agents.api import find_published_key

    found = find_published_key(key_id, project)
    if not is_interactive():
        raise UsageError(
            "trusting a key by its fingerprint needs a terminal",
            remedy="get the file of the key from its owner, then: esper keys trust FILE",
        )
    outline(f"fingerprint: {found.key.key_id}")
    outline(
        f"the key is in {found.source} of this project: anyone who can write to the repository may have put it there"
    )
    name = name or typer.prompt("Name of the owner, such as ann@example.org")
    question = f"Did {one_line(name)} confirm this fingerprint to you outside of this repository?"
    if not typer.confirm(question):
        raise typer.Exit(ExitCode.CANCELLED)
    return found.key.public_key, name


def _show_logs(logs: tuple[str, ...]) -> None:
    for log in logs:
        outline(f"entered in {log}", 1)
    if not logs:
        outline("there is no log here yet to enter it in", 1)


def _accept_project(project: Path) -> None:
    from esper_agents.api import accept_project_keys

    done = accept_project_keys(project)
    outline(f"accepted: {number_of(len(done.keys), 'key')} of {done.project}, as long as the file stays as it is")
    for key in done.keys:
        outline(summary(key), 1)
    show_refused(done.refused)
