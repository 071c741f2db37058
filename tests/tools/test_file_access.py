from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from esper_agents.errors import EvidenceError
from esper_agents.tools.file_access import is_private, readable, writable

SECRET = (
    *(".env", ".ENV", "conf/.env.production", "deploy.env", ".netrc", ".npmrc", "id_rsa", "keys/id_ed25519"),
    *("server.key", "store.p12", "credentials.json", "service-account-prod.json", ".ssh/config", ".aws/credentials"),
    *(".git/config", ".GIT/config", "sub/.git/HEAD", ".git"),
)


@pytest.mark.parametrize("path", SECRET)
def test_secrets_and_git_s_own_files_are_neither_read_nor_written(context, path):
    assert is_private(path)
    target = context.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        target.write_text("seekret")
    for may in (readable, writable):
        with pytest.raises(EvidenceError, match="models"):
            may(context, path)


@pytest.mark.parametrize(
    "path",
    [
        ".env.example",
        "example.env",
        "tokenizer.py",
        "secrets.toml",
        "keys.py",
        "environment.yml",
        ".gitignore",
        "a/.b/c",
    ],
)
def test_what_only_sounds_like_it_is_read(context, path):
    (context.root / path).parent.mkdir(parents=True, exist_ok=True)
    (context.root / path).write_text("x")
    assert readable(context, path) == context.root / path


@pytest.mark.parametrize("path", ["secrets.toml", "conf/my_token.txt", "cert.pem"])
def test_what_git_ignores_and_sounds_like_a_secret_is_kept_from_models(context, path):
    (context.root / "conf").mkdir()
    (context.root / path).write_text("x")
    assert readable(context, path)
    (context.root / ".gitignore").write_text(f"{path}\n")
    with pytest.raises(EvidenceError, match="git ignores it"):
        readable(context, path)


@pytest.mark.parametrize("name", ["notes.txt", "sub/notes.txt"])
def test_a_link_to_a_secret_is_one(context, name):
    (context.root / ".env").write_text("seekret")
    (context.root / "sub").mkdir()
    (context.root / name).symlink_to(context.root / ".env")
    for may in (readable, writable):
        with pytest.raises(EvidenceError, match="holds secrets"):
            may(context, name)


def test_a_link_that_is_called_like_a_secret_is_one(context):
    (context.root / ".env").symlink_to("train.py")
    with pytest.raises(EvidenceError, match="holds secrets"):
        readable(context, ".env")


@pytest.mark.parametrize(
    "path", [".esper/config.toml", ".claude/agents/x.md", "docs/ai/agents/x/y.md", "Docs/AI/agents/z.md"]
)
def test_what_says_what_agents_may_do_is_read_and_never_written(context, path):
    (context.root / path).parent.mkdir(parents=True, exist_ok=True)
    (context.root / path).write_text("x")
    assert readable(context, path)
    with pytest.raises(EvidenceError, match="cannot be written by a tool"):
        writable(context, path)


def test_a_folder_of_settings_is_not_written_through_a_link(context):
    (context.root / ".esper").mkdir()
    (context.root / "elsewhere").symlink_to(".esper")
    with pytest.raises(EvidenceError, match="cannot be written by a tool"):
        writable(context, "elsewhere/config.toml")


@pytest.mark.parametrize("path", ["../x.py", "/etc/passwd", "out/x.py", "sub/../../x"])
def test_nothing_outside_is_written(context, path):
    (context.root / "out").symlink_to("..")
    with pytest.raises(EvidenceError, match="outside the project"):
        writable(context, path)


def test_a_file_that_is_not_there_may_be_written_and_a_folder_may_not(context):
    assert writable(context, "new/deep/x.py") == context.root / "new/deep/x.py"
    (context.root / "folder").mkdir()
    with pytest.raises(EvidenceError, match="is not a file"):
        writable(context, "folder")


def test_the_program_s_own_folder_is_kept_from_models_where_it_lies_in_the_project(context, monkeypatch):
    (context.root / "data" / "keys").mkdir(parents=True)
    (context.root / "data" / "keys" / "x").write_text("seekret")
    monkeypatch.setenv("ESPER_HOME", str(context.root / "data"))
    for may in (readable, writable):
        with pytest.raises(EvidenceError, match="the program's own"):
            may(context, "data/keys/x")


PIECES = st.sampled_from(
    [
        "..",
        ".",
        "",
        ".git",
        ".GIT",
        "sub",
        "out",
        "to-git",
        "to-env",
        "to-esper",
        "train.py",
        ".env",
        ".esper",
        "new.py",
        "/",
        "~",
    ]
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(PIECES, max_size=6))
def test_no_way_to_write_a_path_leads_out_or_to_a_secret(tangled, pieces):
    root = tangled.root.resolve()
    for may in (readable, writable):
        try:
            found = may(tangled, "/".join(pieces))
        except EvidenceError:
            continue
        inside = found.relative_to(root)
        assert found == found.resolve()
        assert ".git" not in {part.casefold() for part in inside.parts}
        assert inside.name != ".env"
        assert may is readable or ".esper" not in inside.parts


@pytest.fixture
def tangled(context):
    root = context.root
    (root / "sub").mkdir()
    (root / ".esper").mkdir()
    (root / ".env").write_text("seekret")
    links = {
        "out": "..",
        "to-git": ".git",
        "to-env": ".env",
        "to-esper": ".esper",
        "sub/out": "../..",
        "sub/to-git": "../.git",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    return context
