"""Agent files as they are found in the wild are read, and what is odd about them is said."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esper_agents.agents.decoding import MAX_BYTES
from esper_agents.agents.definition import load_definition, read_definition
from esper_agents.domain.agent import Agent, Example
from esper_agents.errors import DefinitionError

WILD = Path(__file__).parent / "wild"
SEEDS = Path(__file__).parents[3] / "shared" / "seeds"

# File, the name it is given, and (line, part of the problem) of each oddity, in order.
READ = [
    ("Spaces And Capitals.md", "heron-counter", [(2, "is read as 'heron-counter'")]),
    ("alias-bomb.md", "alias-bomb", [*((line, "") for line in (4, 5, 5, 6, 7, 8))]),
    ("allowed-tools.md", "allowed-tools", [(4, "is read as `tools`")]),
    ("blank-lines-above.md", "blank-lines-above", [(1, "text above the front matter")]),
    ("block-in-bad-yaml.md", "block-in-bad-yaml", [(3, "not valid YAML"), (3, "unknown field 'argument-hint'")]),
    ("broken-quotes.md", "broken-quotes", [(3, "not valid YAML")]),
    ("byte-order-mark.md", "byte-order-mark", [(1, "byte-order mark (utf-8)")]),
    ("capital-fields.md", "capital-fields", []),
    ("carriage-returns.md", "carriage-returns", [(1, "carriage return")]),
    ("code-fence.md", "code-fence", [(1, "code fence")]),
    ("comment-in-description.md", "comment-in-description", [(3, "description ends at ` #`")]),
    ("empty-body.md", "empty-body", [(1, "no instructions")]),
    ("escapes.md", "escapes", [(2, "control or invisible"), (3, "control or invisible")]),
    ("folded.md", "folded", [(6, "an example has no text"), (6, "`for` is 'maybe'")]),
    ("grants.md", "grants", [(4, "'permissionMode' grants nothing"), (5, "'hooks' grants nothing")]),
    ("hidden-characters.md", "hidden-characters", [(3, "control or invisible characters")]),
    ("mojibake-twice.md", "mojibake-twice", [(3, "garbled characters")]),
    ("mojibake.md", "mojibake", [(3, "3 garbled characters")]),
    ("name-is-a-list.md", "heron-counter", [(2, "`name` is not text"), (2, "is read as")]),
    ("name-is-a-path.md", "etc-passwd", [(2, "is read as 'etc-passwd'")]),
    ("nested-deeply.md", "nested-deeply", [(4, "nested too deeply"), (4, "unknown field 'x'")]),
    ("no-closing.md", "no-closing", [(2, "no closing `---`")]),
    ("no-description.md", "no-description", [(1, "no description")]),
    ("no-front-matter.md", "no-front-matter", [(1, "no front matter"), (1, "no name"), (1, "no description")]),
    ("no-name.md", "no-name", [(1, "no name; using the file's name")]),
    ("no-opening.md", "no-opening", [(1, "no opening `---`")]),
    ("not-a-mapping.md", "not-a-mapping", [(1, "no `name:`"), (1, "no name"), (1, "no description")]),
    ("python-tag.md", "python-tag", [(4, "tag was ignored"), (4, "`model` is not text"), (4, "not a model name")]),
    ("rule-at-the-top.md", "rule-at-the-top", [(1, "no `name:`"), (1, "no name"), (1, "no description")]),
    ("rule-instead-of-closing.md", "rule-instead-of-closing", [(2, "no closing `---`")]),
    ("second-keys-in-bad-yaml.md", "second-keys-in-bad-yaml", [(3, "not valid YAML"), (4, "second 'description'")]),
    ("second-keys.md", "second-keys", [(4, "second 'name'"), (6, "second 'model'")]),
    ("sections.md", "sections", []),
    ("speech-not-indented.md", "speech-not-indented", [(3, "not valid YAML")]),
    ("tabs.md", "tabs", [(5, "tabs")]),
    ("tools-as-flow-list.md", "tools-as-flow-list", [(3, "not valid YAML")]),
    ("tools-as-list.md", "tools-as-list", []),
    ("tools-as-text.md", "tools-as-text", []),
    ("tools-empty.md", "tools-empty", [(4, "`tools` is empty")]),
    ("tools-forbidden.md", "tools-forbidden", []),
    ("tools-star.md", "tools-star", [(4, "not valid YAML"), (4, "names every tool")]),
    ("tools-without-commas.md", "tools-without-commas", []),
    ("two-documents.md", "two-documents", []),
    ("unknown-fields.md", "unknown-fields", [(5, "unknown field 'priority'")]),
    ("unquoted-colon.md", "unquoted-colon", [(3, "not valid YAML"), (3, "literal `\\n`")]),
    ("utf-16.md", "utf-16", [(1, "byte-order mark (utf-16)")]),
    ("windows-1252.md", "windows-1252", [(3, "not UTF-8")]),
    ("words-yaml-takes-for-values.md", "no", []),
]
REFUSED = [
    ("refused-blank.md", "empty"),
    ("refused-empty.md", "empty"),
    ("refused-nothing-said.md", "neither a description nor instructions"),
    ("refused-nul-bytes.md", "NUL"),
    ("refused-undecodable.md", "neither UTF-8 nor Windows-1252"),
]


def wild(name: str) -> Agent:
    return load_definition(WILD / name)


def read(text: str) -> Agent:
    return read_definition(text.encode(), path="herons.md", stem="herons")


def test_every_wild_file_is_expected_to_be_read_or_refused() -> None:
    expected = {name for name, *_ in READ} | {name for name, _ in REFUSED}
    assert {path.name for path in WILD.iterdir() if path.is_file()} == expected


@pytest.mark.parametrize(("file", "name", "oddities"), READ, ids=[file for file, *_ in READ])
def test_a_wild_file_is_read_and_each_oddity_has_its_line_and_remedy(file, name, oddities) -> None:
    agent = wild(file)
    assert agent.name == name
    assert [odd.line for odd in agent.oddities] == [line for line, _ in oddities], agent.oddities
    for odd, (_, part) in zip(agent.oddities, oddities, strict=True):
        assert part in odd.problem
        assert odd.remedy
        assert odd.path.endswith(file)
    assert agent.sha256 == sha256((WILD / file).read_bytes()).hexdigest()


@pytest.mark.parametrize(("file", "problem"), REFUSED)
def test_a_file_that_cannot_be_used_is_refused_with_a_remedy(file, problem) -> None:
    with pytest.raises(DefinitionError, match=problem) as caught:
        wild(file)
    assert file in caught.value.problem
    assert caught.value.remedy


def test_a_file_that_is_not_there_is_refused(tmp_path) -> None:
    with pytest.raises(DefinitionError, match="no such file"):
        load_definition(tmp_path / "none.md")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path) -> None:
    with pytest.raises(DefinitionError, match="directory"):
        load_definition(tmp_path)


def test_a_file_of_more_than_a_million_bytes_is_refused_and_one_of_a_million_is_not(tmp_path) -> None:
    head = b"---\nname: a\ndescription: b\n---\n"
    (tmp_path / "fits.md").write_bytes(head + b"x" * (MAX_BYTES - len(head)))
    (tmp_path / "large.md").write_bytes(head + b"x" * (MAX_BYTES - len(head) + 1))
    assert load_definition(tmp_path / "fits.md").name == "a"
    with pytest.raises(DefinitionError, match="larger than"):
        load_definition(tmp_path / "large.md")


def test_an_unquoted_description_gives_its_line_feeds_examples_and_subjects() -> None:
    agent = wild("unquoted-colon.md")
    assert agent.description.splitlines()[2] == "- User: 'How many herons?'"
    assert agent.handles == ("herons", "reed beds (wet, dry)")
    assert agent.examples == (Example("How many herons?", is_for=True), Example("Are the reeds gone?", is_for=True))
    assert agent.model == "opus"


def test_example_blocks_say_who_should_be_asked_instead() -> None:
    agent = wild("speech-not-indented.md")
    assert agent.examples == (
        Example("How many herons today?", is_for=True),
        Example("Dig a pond", is_for=False, instead="pond-architect"),
    )
    assert agent.hands_off_to == ("pond-architect",)
    assert agent.model == "opus"
    assert agent.tools == ("Read", "Grep")


def test_sections_say_what_is_handled_declined_and_passed_on_and_code_says_nothing() -> None:
    agent = wild("sections.md")
    assert agent.handles == ("counting herons", "nesting boxes", "Reeds", "reed beds")
    assert agent.declines == ("fish or frogs", "fish (use the fish-counter agent)", "frogs", "reeds (reed-keeper)")
    assert agent.hands_off_to == ("pond-architect", "water-specialist", "reed-keeper")


def test_front_matter_goes_before_what_the_text_says() -> None:
    agent = read("---\nname: a\ndescription: b\nhandles: [x]\ndeclines: []\nhands_off_to: c\n---\n## I review\n- y\n")
    assert (agent.handles, agent.declines, agent.hands_off_to) == (("x",), (), ("c",))


@pytest.mark.parametrize(
    ("file", "tools"),
    [
        ("tools-as-text.md", ("Read", "Bash(git log:*, ls)", "mcp__birds__count")),
        ("tools-without-commas.md", ("Read", "Grep", "Bash(git log:*)")),
        ("tools-as-list.md", ("Read", "Grep")),
        ("tools-as-flow-list.md", ("Read", "Grep", "Bash")),
        ("tools-forbidden.md", ("Read",)),
        ("tools-empty.md", ()),
        ("tools-star.md", None),
        ("no-name.md", None),
    ],
)
def test_tools_are_read_in_every_way_of_writing_them(file, tools) -> None:
    assert wild(file).tools == tools


def test_garbled_characters_are_mended_and_proper_ones_kept() -> None:
    agent = wild("mojibake.md")
    assert agent.description == "Counts birds \u2014 slowly."
    assert agent.hands_off_to == ("fish-counter", "reed-keeper", "pond-architect")
    assert "Zo\u00eb" in agent.body
    assert wild("mojibake-twice.md").description == "Counts birds \u20ac slowly."


@pytest.mark.parametrize(
    "proper",
    ["voil\u00e0\u00a0\u00bb", "Z\u00c9\u00a0!", "\u00ab\u00a0\u00c9t\u00e9\u00a0\u00bb", "\u2192 \u4f60\u597d"],
)
def test_proper_text_that_looks_a_little_garbled_is_left_alone(proper) -> None:
    agent = read(f"---\nname: a\ndescription: {proper}\n---\nbody\n")
    assert agent.description == proper
    assert agent.oddities == ()


def test_no_python_object_is_made_from_a_yaml_tag() -> None:
    assert wild("python-tag.md").model == "inherit"
    assert not Path("/tmp/pwned-by-an-agent").exists()  # noqa: S108 - what the sample would create


def test_aliases_are_never_expanded() -> None:
    assert wild("alias-bomb.md").tools == ("*e",)


def test_escape_sequences_and_hidden_text_do_not_get_through() -> None:
    assert wild("hidden-characters.md").body == "You count."
    assert wild("hidden-characters.md").description == "Counts [31mred[0m birds sdrib."
    assert wild("escapes.md").description == "Counts [31mred birds."


def test_first_of_equal_fields_counts() -> None:
    agent = wild("second-keys.md")
    assert (agent.name, agent.model) == ("second-keys", "opus")


def test_yaml_words_for_values_stay_words() -> None:
    agent = wild("words-yaml-takes-for-values.md")
    assert (agent.name, agent.description, agent.model) == ("no", "2026-13-45", "3")


def test_a_rule_in_the_body_is_not_the_end_of_front_matter() -> None:
    assert wild("rule-instead-of-closing.md").body.endswith("---\n\nAnd then you rest.")


def test_examples_in_front_matter_are_for_it_unless_they_say_otherwise() -> None:
    assert wild("folded.md").examples == (
        Example("How many herons?", is_for=True),
        Example("Dig a pond", is_for=False, instead="pond-architect"),
        Example("just text", is_for=True),
        Example("odd", is_for=True),
    )


def test_a_namespace_goes_before_the_name() -> None:
    assert load_definition(WILD / "no-name.md", namespace="project").name == "project:no-name"


def test_the_domain_is_what_the_name_says_without_the_role() -> None:
    assert read("---\nname: heron-pond-specialist\ndescription: b\n---\nc\n").domain == "heron pond"
    assert read("---\nname: reviewer\ndescription: b\n---\nc\n").domain == "reviewer"


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_read_or_refused(raw) -> None:
    check_read_or_refused(raw)


FRAGMENTS = st.sampled_from(
    (
        *("---\n", "name:", "description: ", "tools: [", "]", "- ", "\n", "\t", "  ", "{", "}", "&a ", "*a", "!!int "),
        *('"', "'", "<example>", "</example>", "user: ", "assistant: do not use", "use x-y", "## I review\n", "\\n"),
        *("**a** \u2192 b-c\n", "|", ">-", "\r", "\x00", "\x1b", "\u00e2\u2020\u2019", "\ufeff", "examples:\n"),
        *("for: ", "...\n", "```\n", ": ", "#", "? "),
    )
)


@settings(max_examples=500, deadline=None)
@given(st.lists(FRAGMENTS | st.text(max_size=8), max_size=30).map("".join))
def test_arbitrary_pieces_of_definitions_are_read_or_refused(text) -> None:
    check_read_or_refused(text.encode("utf-8", "surrogatepass"))
    check_read_or_refused(("---\nname: a\n" + text).encode("utf-8", "surrogatepass"))


def check_read_or_refused(raw: bytes) -> None:
    try:
        agent = read_definition(raw, path="wild.md", stem="wild")
    except DefinitionError:
        return
    lines = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
    assert all(1 <= odd.line <= lines for odd in agent.oddities)
    assert agent.description
    assert agent.name == agent.name.lower()
    assert not set("/\\: \n\0") & set(agent.name)
    assert agent.name not in ("", ".", "..")


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the folder shared/seeds beside the repository is absent")
class TestSeeds:
    """The files that the project was begun from load as they are, under the names that they would have."""

    def load(self, number: str, tmp_path: Path, stem: str) -> Agent:
        (seed,) = SEEDS.glob(f"{number}_*.txt")
        target = tmp_path / f"{stem}.md"
        target.write_bytes(seed.read_bytes())
        return load_definition(target)

    def test_the_expert_loads_though_its_front_matter_is_no_yaml(self, tmp_path) -> None:
        agent = self.load("000", tmp_path, "pytorch-expert")
        assert (agent.name, agent.model, agent.tools) == ("pytorch-expert", "opus", None)
        assert agent.description.startswith("Use this agent when working with PyTorch code")
        assert [example.text for example in agent.examples][:2] == [
            "My torch.compile is causing graph breaks",
            "Help me set up FSDP2 with tensor parallelism",
        ]
        assert "PyTorch 2.x migration" in agent.handles
        assert len(agent.skills) == 3
        assert {odd.line for odd in agent.oddities} == {3}

    def test_the_specialist_loads_mended_with_its_ten_neighbours(self, tmp_path) -> None:
        agent = self.load("001", tmp_path, "torch-specialist")
        assert agent.tools == ("Read", "Write", "Python", "Bash", "Git", "Grep")
        assert len(agent.hands_off_to) == 10
        assert {"devops-engineer", "performance-engineer", "issue-triage-manager"} <= set(agent.hands_off_to)
        assert "Security vulnerabilities (security-architect)" in agent.declines
        assert "\u2192 issue-triage-manager" in agent.body
        assert ["garbled" in odd.problem for odd in agent.oddities] == [True]

    def test_the_performance_engineer_loads_without_an_oddity(self, tmp_path) -> None:
        agent = self.load("002", tmp_path, "pytorch-ultimate-performance-engineer")
        assert agent.name == "pytorch-ultimate-performance-engineer"
        assert agent.description.startswith("An obsessive, perfectionist")
        assert agent.oddities == ()

    def test_the_reviewer_takes_its_name_from_its_file_and_its_examples_from_its_body(self, tmp_path) -> None:
        agent = self.load("003", tmp_path, "pytorch-code-reviewer")
        assert (agent.name, agent.model) == ("pytorch-code-reviewer", "sonnet")
        assert [(example.is_for, example.instead) for example in agent.examples] == [
            (True, ""),
            (True, ""),
            (True, ""),
            (False, "/debug-nan"),
            (False, "memory-diagnostician"),
        ]
        assert agent.handles[0] == "PyTorch model correctness"
        assert agent.declines[0] == "Active debugging (use /debug-* commands)"
        assert agent.hands_off_to == ("memory-diagnostician",)
