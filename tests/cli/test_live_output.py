"""What a person sees while a session runs."""

from __future__ import annotations

from esper_agents.cli.live_output import Narrator
from esper_agents.domain.program_notice import ProgramNotice


def test_a_line_of_the_programs_own_stands_apart_from_what_a_model_writes(capsys):
    narrator = Narrator(lambda _: None)
    for words in ("I look\nand be", "gin", ProgramNotice("localhost ended its answer early"), "I look"):
        narrator.hear(words)
    told = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert told == [["says", "I look"], ["says", "and begin"], ["waits", "localhost ended its answer early"]]
