"""Text that the code executes: `eval`, `exec`, and commands of a shell."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.argument_origins import UNTRUSTED, WRITTEN_HERE, assumed_writer, origin_of
from esper_agents.review.fact_query import Assessment, FactQuery

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables

_EVALUATED = ("eval", "exec", "builtins.eval", "builtins.exec")
_SHELL = ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput")
_PROCESSES = (
    *("subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output", "subprocess.Popen"),
)


class ExecutedText(FactQuery):
    """Every `eval`, `exec` and shell command, with the origin of its text; those with a text of the code, too."""

    name = "executed-text"
    topics = ("security", UNTRUSTED)
    claim = "a text is executed as code or as a command"
    refutes = False
    follows_names = True
    category = Category.SECURITY
    bad = "import sys\n\n\ndef main():\n    return eval(sys.argv[1])\n"
    good = "def main(model):\n    model.eval()\n    return eval('1 + 1')\n"

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield one fact for each place where a text is executed."""
        for file in files:
            for call in file.calls_to(*_EVALUATED):
                yield self._executed(file, call, index, subject, "executes its text as Python")
            for call in file.calls_to(*_SHELL):
                yield self._executed(file, call, index, subject, "hands its text to a shell")
            for call in file.calls_to(*_PROCESSES):
                shell = call.argument(-1, "shell")
                if isinstance(shell, ast.Constant) and shell.value is True:
                    yield self._executed(file, call, index, subject, "hands its text to a shell")

    def _executed(
        self, file: FileTables, call: Call, index: ProjectIndex, subject: InspectionSubject, what: str
    ) -> Fact:
        given = call.argument(0)
        origin = WRITTEN_HERE if isinstance(given, ast.Constant) else origin_of(call, index)
        if isinstance(given, ast.Constant):
            return self.fact(file, call.node, Assessment.FINE, f"`{call.path}` {what}, which is written in the code")
        text = f"`{call.path}` {what}; {origin}"
        remedy = "parse the text (`ast.literal_eval`, `json.loads`), or call the program with a list of arguments"
        return self.problem(file, call.node, text, remedy, assumption=assumed_writer(origin, subject, "the text"))
