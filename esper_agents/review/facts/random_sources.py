"""Sources of randomness and the seeds that they get: `random`, NumPy, torch, loaders and generators."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.definition_text import named_definition
from esper_agents.review.fact_query import Assessment, FactQuery, InspectionSubject
from esper_agents.review.frameworks import runs_the_loop
from esper_agents.review.names import dotted
from esper_agents.review.patterns import pattern
from esper_agents.review.programs import starts, training_functions
from esper_agents.review.tables import Class, Purpose

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from esper_agents.review.fact_query import Fact
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function


@dataclass(frozen=True, slots=True)
class _Source:
    """A global generator of random numbers.

    Attributes:
        name: What it is called.
        draws: Resolved names of calls that draw from it.
        seeds: Resolved names of calls that seed it.
        remedy: How to seed it.
    """

    name: str
    draws: str
    seeds: str
    remedy: str

    def is_drawn_by(self, call: Call) -> bool:
        """Return whether a call draws from it and from no generator of its own."""
        return pattern(self.draws).fullmatch(call.name) is not None and not _has_generator(call)

    def is_seeded_by(self, call: Call) -> bool:
        return pattern(self.seeds).fullmatch(call.name) is not None


_MODULES = frozenset(("random", "numpy.random"))
_SOURCES = (
    _Source(
        "random",
        r"random\.(?:random|randint|randrange|choice|choices|sample|shuffle|uniform|gauss|normalvariate|betavariate"
        r"|getrandbits|expovariate|triangular)",
        r"random\.(?:seed|setstate)",
        "call `random.seed(seed)` at the start",
    ),
    _Source(
        "numpy.random",
        r"numpy\.random\.(?:rand|randn|randint|random|random_sample|choice|shuffle|permutation|uniform|normal|beta"
        r"|binomial|poisson|standard_normal|multinomial|exponential|laplace|dirichlet|gamma)",
        r"numpy\.random\.(?:seed|set_state)",
        "call `np.random.seed(seed)` at the start",
    ),
    _Source(
        "torch",
        r"torch\.(?:rand|randn|randint|randperm|rand_like|randn_like|randint_like|bernoulli|multinomial|normal|poisson)"
        r"|torch\.nn\.init\.(?!zeros_|ones_|constant_|eye_|dirac_|calculate_gain|_)\w+_?"
        r"|torch\.nn\.(?:Dropout\w*|Linear|Conv\w+|Embedding|LSTM|GRU|TransformerEncoderLayer|MultiheadAttention)"
        r"|torch\.utils\.data\.random_split|torch\.distributions\.\w+(?:\.\w+)*\(\)\.r?sample",
        r"torch\.(?:random\.)?(?:manual_seed|set_rng_state)|torch\.random\.fork_rng",
        "call `torch.manual_seed(seed)` before the model and the loaders are made; it seeds all GPUs too",
    ),
)
# Helpers of other packages that seed all three.
_SEED_ALL = pattern(
    r"(?:\w+\.)*(?:seed_everything|set_seed|enable_full_determinism|set_random_seed|set_determinism|manual_seed_all"
    r"|seed_all|setup_seed|fix_seed|set_global_seeds?|init_seeds?|set_all_seeds?|set_seeds?|seed_all_rng)"
)
_OF_TORCH = pattern(r"torch\.\S+")
_CHANGING = pattern(
    r"time\.(?:time|time_ns|perf_counter|monotonic)|os\.(?:getpid|urandom)|datetime\.\S*now|uuid\.|secrets\."
)
_HASH = pattern(r"(?<![\w.])hash\(")
_MOST_PLACES, _MOST_FILES = 3, 2
_UNGIVEN = pattern(r"\bis None\b|^not\b")
_OPTIONAL = pattern(r"\bis not None\b|\bseed\b")


class RandomSources(FactQuery):
    """Every source of randomness against what is seeded: Python, NumPy, torch, data loaders, generators."""

    name = "random-sources"
    topics = ("reproducibility",)
    claim = "something draws random numbers without a seed"
    category = Category.SILENT_CORRECTNESS
    unseen = "seeds that a launcher or an environment sets, and other versions of libraries or GPUs"
    bad = (
        "import random\n"
        "\n"
        "import torch\n"
        "\n"
        "\n"
        "def main():\n"
        "    torch.manual_seed(0)\n"
        "    return random.random(), torch.rand(3)\n"
        "\n"
        "\n"
        'if __name__ == "__main__":\n'
        "    main()\n"
    )
    good = bad.replace("    torch.manual_seed(0)\n", "    torch.manual_seed(0)\n    random.seed(0)\n")

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the seeds that are set, the draws that have none, and what seeds differently in each run."""
        program = [file for file in index.files.values() if file.purpose in {Purpose.CODE, Purpose.EXAMPLE}]
        helped = any(
            _SEED_ALL.fullmatch(call.name) and _is_foreign(call, index) for file in program for call in file.calls
        )
        for source in _SOURCES:
            seeding = [call for file in program for call in file.calls if source.is_seeded_by(call)]
            if helped and not seeding:
                continue
            if not seeding:
                yield from self._draws(source, files, index, subject)
            else:
                yield from self._seeded_draws(source, seeding[0], files, index, {file.path for file in files})
        for file in files:
            for call in file.calls:
                yield from self._seed(file, call, index)
            yield from self._hash_seed(file)
            for call in file.calls_ending("DataLoader"):
                yield from self._loader(file, call)
            yield from self._late(file, index)

    def _draws(
        self, source: _Source, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject
    ) -> Iterator[Fact]:
        """Yield one fact about all draws from a generator that nothing seeds, at the first one in a program."""
        drawn = _drawn(source, files, index, subject)
        drawn.sort(key=lambda call: (not _is_in_program(call.function.file, index), call.function.file.path, call.line))
        if not drawn:
            return
        first, *others = drawn
        places = dict.fromkeys(f"{call.function.file.path}:{call.line}" for call in others)
        places.pop(f"{first.function.file.path}:{first.line}", None)
        shown = ", ".join(list(places)[:_MOST_PLACES])
        left = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
        more = f" (so {'does' if len(places) == 1 else 'do'} {shown}{left})" if places else ""
        other = " `torch.manual_seed` does not reach and" if source.name != "torch" else ""
        optional = _not_given(first)
        when = f" if `{optional}` is not given" if optional else ""
        text = f"`{first.path}` draws from `{source.name}`{when}{more}, which{other} nothing in the project seeds"
        # A package leaves the seeds to the program that imports it, even if one of its files can be run.
        is_program = "__main__" in first.function.file.text and _is_in_program(first.function.file, index)
        assumption = "" if is_program else "the program that imports this does not either"
        remedy = source.remedy if is_program else f"in the program that imports this, {source.remedy}"
        remedy = f"pass `{optional}=` with a number, or {remedy}" if optional else remedy
        yield self.problem(first.function.file, first.node, text, remedy, assumption=assumption)

    def _seeded_draws(
        self, source: _Source, seeding: Call, files: Sequence[FileTables], index: ProjectIndex, path: Collection[str]
    ) -> Iterator[Fact]:
        """Yield the draws of few files from a generator that another file seeds."""
        if len(files) > _MOST_FILES or seeding.function.file.path in path:
            return
        for call in _drawn(source, files, index, InspectionSubject())[:_MOST_PLACES]:
            place = f"{seeding.function.file.path}:{seeding.line}"
            worker = ", and each worker of a loader has its own" if source.name == "torch" else ""
            drawn = f"`{call.path}` draws from the global generator of `{source.name}`{worker}"
            text = f"{drawn}; it is seeded only by a program that runs {place}"
            yield self.fact(call.function.file, call.node, Assessment.DESCRIPTION, text)

    def _seed(self, file: FileTables, call: Call, index: ProjectIndex) -> Iterator[Fact]:
        if _SEED_ALL.fullmatch(call.name) and _is_foreign(call, index):
            yield self.fact(file, call.node, Assessment.FINE, f"`{call.path}` seeds random, NumPy and torch")
            return
        if call.name in {"numpy.random.default_rng", "numpy.random.RandomState", "random.Random"}:
            yield from self._own_generator(file, call, index)
        elif call.tail == "seed" and call.name in {"torch.seed", "torch.cuda.seed", "torch.random.seed"}:
            text = f"`{call.path}()` takes a new seed from the operating system in every run"
            yield self.problem(file, call.node, text, "write `torch.manual_seed(seed)`")
        elif source := next((each for each in _SOURCES if each.is_seeded_by(call)), None):
            yield from self._seeded(file, call, source, index)

    def _seeded(self, file: FileTables, call: Call, source: _Source, index: ProjectIndex) -> Iterator[Fact]:
        if call.tail in {"set_state", "setstate", "set_rng_state", "fork_rng"}:
            return
        value = call.argument(0)
        if value is None and not call.has_splat():
            value = call.argument(0, "seed") or call.argument(0, "a")
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            if not call.has_splat():
                text = f"`{call.path}()` takes another seed in every run"
                yield self.problem(file, call.node, text, f"write `{call.path}(seed)`")
            return
        origins = index.origins(value, call.function, call.line)
        texts = [ast.unparse(value), *(ast.unparse(origin.value) for origin in origins)]
        if any(_CHANGING.search(text) for text in texts):
            text = f"`{source.name}` is seeded by the time or the process, so each run has another seed"
            yield self.problem(file, call.node, text, f"write `{call.path}(seed)` with a number")
        elif any(_HASH.search(text) for text in texts):
            text = "`hash` of a text differs in every process, and so does this seed"
            yield self.problem(file, call.node, text, "use `zlib.crc32(text.encode())`")
        elif optional := _optional_around(call):
            yield self.fact(file, call.node, Assessment.OPEN, f"`{source.name}` is seeded only if `{optional}`")
        else:
            yield self.fact(file, call.node, Assessment.FINE, f"`{source.name}` is seeded here")

    def _own_generator(self, file: FileTables, call: Call, index: ProjectIndex) -> Iterator[Fact]:
        given = call.argument(0, "seed")
        if call.has_splat():
            return
        if given is None or (isinstance(given, ast.Constant) and given.value is None):
            text = f"`{call.path}()` without a seed draws other numbers in every run"
            is_own = _is_in_program(file, index) or call.function in training_functions(index)
            tests = [each.node.test for each in call.block.chain() if isinstance(each.node, ast.If)]
            is_own &= not any(_UNGIVEN.search(ast.unparse(test)) for test in tests)
            assumption = "" if is_own else "its numbers reach a result that must repeat"
            yield self.problem(file, call.node, text, f"write `{call.path}(seed)`", assumption=assumption)
        elif isinstance(given, ast.Constant):
            yield self.fact(file, call.node, Assessment.FINE, f"`{call.path}` has a seed of its own")

    def _hash_seed(self, file: FileTables) -> Iterator[Fact]:
        for given in (each for function in file.functions for held in function.assignments.values() for each in held):
            if given.target.endswith("environ[]") and "PYTHONHASHSEED" in ast.unparse(given.node):
                text = "PYTHONHASHSEED is read when Python starts: set here, it changes nothing in this process"
                remedy = "set it in the command: `PYTHONHASHSEED=0 python ...`"
                yield self.fact(file, given.statement, Assessment.SHOULD_CHECK, text, remedy)

    def _loader(self, file: FileTables, call: Call) -> Iterator[Fact]:
        shuffle = call.argument(2, "shuffle")
        if isinstance(shuffle, ast.Constant) and shuffle.value is True:
            if call.argument(-1, "generator") is not None:
                yield self.fact(file, call.node, Assessment.FINE, "this loader shuffles by a generator of its own")
            elif not call.has_splat():
                text = "this loader shuffles by the seed of torch, and every other draw from torch moves its order"
                yield self.fact(file, call.node, Assessment.DESCRIPTION, text)

    def _late(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield models that are made above the seed in the same function."""
        for seed in file.calls_to("torch.manual_seed"):
            before = [
                call
                for call in seed.function.calls
                if call.line < seed.line
                and seed.block.within(call.block)
                and (made := index.class_called(call.node, call.function)) is not None
                and index.is_module(made)
            ]
            earlier = [each for each in seed.function.calls if each.name == seed.name and each.line < seed.line]
            if before and not earlier and seed.block.loop is None:
                text = f"`{before[0].path}` draws its weights before the seed on line {seed.line} is set"
                yield self.problem(file, before[0].node, text, "set the seed above this line")


def _drawn(source: _Source, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> list[Call]:
    """Return the draws from a generator: of named definitions with all that they call, else of files."""
    named = [found for symbol in subject.symbols if (found := named_definition(symbol, index)) is not None]
    own = [one for each in named for one in (each.methods.values() if isinstance(each, Class) else (each,))]
    reached = dict.fromkeys(each for one in own for each in index.closure(one))
    of_named = _draws_in(source, reached, index)
    return of_named or _draws_in(source, (function for file in files for function in file.functions), index)


def _draws_in(source: _Source, functions: Iterable[Function], index: ProjectIndex) -> list[Call]:
    return [
        call
        for function in functions
        if not (source.name == "torch" and runs_the_loop(function.file))
        for call in function.calls
        if source.is_drawn_by(_unaliased(call, index)) and not _is_self_test(call, index)
    ]


def _not_given(call: Call) -> str:
    """Return the parameter that is None where a call is reached; empty without one."""
    for block in call.block.chain():
        match block.node:
            case ast.If(
                test=ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)])
            ):
                if name in call.function.parameters:
                    return name
            case _:
                continue
    return ""


def _is_in_program(file: FileTables, index: ProjectIndex) -> bool:
    """Return whether a file belongs to a program of the project, which can set its seeds."""
    return any("__main__" in start.text for start in starts(file, index))


def _is_self_test(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call stands below `if __name__` of a file that others import, where only its author runs it."""
    tests = [each.node.test for each in call.block.chain() if isinstance(each.node, ast.If)]
    return any("__name__" in ast.unparse(test) for test in tests) and call.function.file not in starts(
        call.function.file, index
    )


def _has_generator(call: Call) -> bool:
    return any(keyword.arg in {"generator", "rng"} for keyword in call.node.keywords)


def _is_foreign(call: Call, index: ProjectIndex) -> bool:
    """Return whether a helper that seeds is of another package, so that its own lines are not in these files."""
    return not index.callees(call) and "." in call.name and _OF_TORCH.fullmatch(call.name) is None


def _optional_around(call: Call) -> str:
    """Return the test under which alone a seed is set; empty if it is always set."""
    tests = [each.node.test for each in call.block.chain() if isinstance(each.node, ast.If)]
    shown = [ast.unparse(test) for test in tests]
    found = next((each for each in shown if _OPTIONAL.search(each) and "__name__" not in each), "")
    return found[:60]


def _unaliased(call: Call, index: ProjectIndex) -> Call:
    """Return a call with the name that is behind a constant of the project, such as `RANDOM = np.random`."""
    prefix, _, tail = call.name.rpartition(".")
    known = index.once("constants that name generators", lambda: _aliases(index))
    whole = next((each for each in (prefix, f"{call.function.file.module}.{prefix}") if each in known), "")
    return replace(call, name=f"{known[whole]}.{tail}") if whole else call


def _aliases(index: ProjectIndex) -> dict[str, str]:
    found = {}
    for file in index.files.values():
        for target, assignments in file.functions[0].assignments.items():
            first, dot, rest = dotted(assignments[-1].value).partition(".")
            named = file.imports.get(first, first) + dot + rest
            if named in _MODULES:
                found[f"{file.module}.{target}"] = named
    return found
