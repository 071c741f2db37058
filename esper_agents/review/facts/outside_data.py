"""Data and code from outside: archives, downloads, remote code, YAML and pickled arrays."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.argument_origins import FROM_OUTSIDE, UNTRUSTED, assumed_writer, origin_of
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables

_YAML = ("yaml.load", "yaml.load_all")
_SAFE_YAML = ("yaml.safe_load", "yaml.safe_load_all")
_SAFE_LOADERS = frozenset({"SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader"})
_PICKLED = ("numpy.load", "pandas.read_pickle")
_DOWNLOADS = (
    *("urllib.request.urlretrieve", "torch.hub.download_url_to_file", "wget.download", "gdown.download"),
    *("requests.get", "urllib.request.urlopen", "gdown.cached_download"),
)
_RESPONSES = frozenset({"requests.get", "urllib.request.urlopen"})
_STORING = frozenset({"write", "write_bytes", "iter_content", "copyfileobj", "BytesIO", "extractall", "load"})
# Arguments by which a download is compared with a known digest.
_DIGESTS = ("hash_prefix", "md5", "sha256", "hash", "known_hash")
_OF_HUB = frozenset({"hf_hub_download", "snapshot_download"})
_COMMIT = pattern(r"[0-9a-f]{7,40}", re.IGNORECASE)
_TAR = frozenset({"tarfile.open", "tarfile.TarFile", "tarfile.TarFile.open"})
_ZIP = frozenset({"zipfile.ZipFile", "ZipFile"})


class OutsideData(FactQuery):
    """Every archive that is extracted, download, call with remote code, YAML or pickled array, with its origin."""

    name = "outside-data"
    topics = ("security", UNTRUSTED)
    claim = "data from outside decides which code runs or which files are written"
    refutes = False
    follows_names = True
    category = Category.SECURITY
    unseen = "who can change the servers, repositories and archives that are read"
    bad = (
        "import sys\nimport tarfile\n\n\ndef unpack(folder):\n    with tarfile.open(sys.argv[1]) as archive:\n"
        "        archive.extractall(folder)\n"
    )
    good = bad.replace("extractall(folder)", "extractall(folder, filter='data')")

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield one fact for each place where something from outside comes in."""
        for file in files:
            for call in file.calls_ending("extractall", "extract", "unpack_archive"):
                yield from self._archive(file, call, index, subject)
            for call in file.calls_to(*_YAML):
                yield self._yaml(file, call, index, subject)
            for call in file.calls_to(*_SAFE_YAML):
                yield self.fact(file, call.node, Assessment.FINE, f"`{call.path}` makes plain data only")
            for call in file.calls_to(*_PICKLED):
                yield from self._pickled(file, call, index, subject)
            for call in file.calls_to(*_DOWNLOADS):
                if call.name not in _RESPONSES or _is_stored(call):
                    yield self._download(file, call, index)
            for call in file.calls:
                yield from self._remote(file, call, index)

    def _archive(self, file: FileTables, call: Call, index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        opened = _opened(call, index)
        name = dotted(opened.func) if opened is not None else call.name
        if call.name == "shutil.unpack_archive" or name in _TAR or tail_of(name) == "TarFile":
            argument = opened.args[0] if opened is not None and opened.args else None
            origin = origin_of(call, index, argument)
            said = call.argument(-1, "filter")
            if isinstance(said, ast.Constant) and said.value in {"data", "tar"}:
                text = f"`{call.path}` with `filter={said.value!r}` refuses paths outside the folder; {origin}"
                yield self.fact(file, call.node, Assessment.FINE, text)
                return
            if opened is None and call.name != "shutil.unpack_archive":
                return
            text = f"`{call.path}` writes wherever the names in the archive point, also outside the folder; {origin}"
            remedy = 'write `filter="data"` (the default since Python 3.14)'
            assumptions = (assumed_writer(origin, subject, "the archive"), "Python is older than 3.14")
            yield self.problem(file, call.node, text, remedy, assumption=" and ".join(filter(None, assumptions)))
        elif opened is not None and tail_of(name) == "ZipFile":
            text = f"`{call.path}` of a zip archive drops `..` and absolute paths; {origin_of(call, index)}"
            yield self.fact(file, call.node, Assessment.FINE, text)

    def _yaml(self, file: FileTables, call: Call, index: ProjectIndex, subject: InspectionSubject) -> Fact:
        loader = call.argument(1, "Loader")
        name = tail_of(dotted(loader)) if loader is not None else ""
        origin = origin_of(call, index)
        if name in _SAFE_LOADERS:
            return self.fact(file, call.node, Assessment.FINE, f"`{call.path}` with `{name}` makes plain data only")
        if loader is not None and "Loader" not in name:
            text = f"`{call.path}` takes its loader from elsewhere; {origin}"
            return self.fact(file, call.node, Assessment.OPEN, text)
        used = f"with `{name}`" if name else "without a loader"
        text = f"`{call.path}` {used} makes objects that the text names; {origin}"
        # This loader has had holes, and has none that is known.
        assumption = (
            "others can write the text" if name == "FullLoader" else assumed_writer(origin, subject, "the text")
        )
        return self.problem(file, call.node, text, "call `yaml.safe_load`", assumption=assumption)

    def _pickled(self, file: FileTables, call: Call, index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        said = call.argument(-1, "allow_pickle")
        if call.tail == "load" and not (isinstance(said, ast.Constant) and said.value is True):
            return
        origin = origin_of(call, index)
        how = " with `allow_pickle=True`" if call.tail == "load" else ""
        text = f"`{call.path}`{how} executes what the file says; {origin}"
        remedy = "store plain arrays or tables"
        yield self.problem(file, call.node, text, remedy, assumption=assumed_writer(origin, subject))

    def _download(self, file: FileTables, call: Call, index: ProjectIndex) -> Fact:
        address = call.argument(0, "url")
        origin = origin_of(call, index, address)
        if any(call.argument(-1, digest) is not None for digest in _DIGESTS):
            text = f"`{call.path}` compares the download with a digest; {origin}"
            return self.fact(file, call.node, Assessment.FINE, text)
        values = [address] if address is not None else []
        values += [each.value for value in values for each in index.origins(value, call.function, call.line)]
        plain = [each for each in values if isinstance(each, ast.Constant) and str(each.value).startswith("http://")]
        if plain:
            text = f"`{call.path}` downloads without encryption, so anyone on the way can change it"
            return self.problem(file, call.node, text, "use an https address")
        text = f"`{call.path}` downloads and compares no digest; {origin}"
        return self.fact(file, call.node, Assessment.OPEN, text)

    def _remote(self, file: FileTables, call: Call, index: ProjectIndex) -> Iterator[Fact]:
        trusts = call.argument(-1, "trust_remote_code")
        revision = call.argument(-1, "revision")
        is_pinned = isinstance(revision, ast.Constant) and bool(_COMMIT.fullmatch(str(revision.value)))
        if trusts is not None and not (isinstance(trusts, ast.Constant) and trusts.value in {False, None}):
            origin = origin_of(call, index)
            is_set = isinstance(trusts, ast.Constant)
            how = "`trust_remote_code=True`" if is_set else f"`trust_remote_code={ast.unparse(trusts)[:40]}`"
            if is_pinned:
                text = f"`{call.path}` with {how} runs the code of a pinned commit of the repository; {origin}"
                yield self.fact(file, call.node, Assessment.OPEN, text)
                return
            text = f"`{call.path}` with {how} runs code of the repository as it is on that day; {origin}"
            remedy = "pin `revision=` to a commit that was read, or omit it"
            assumption = "" if is_set and origin in FROM_OUTSIDE else "others can change that repository"
            yield self.problem(file, call.node, text, remedy, assumption=assumption)
        elif call.tail in _OF_HUB and (revision is None or isinstance(revision, ast.Constant)):
            if is_pinned:
                yield self.fact(file, call.node, Assessment.FINE, f"`{call.path}` is pinned to a commit")
            else:
                text = f"`{call.path}` downloads without a pinned commit; {origin_of(call, index)}"
                yield self.fact(file, call.node, Assessment.OPEN, text)


def _is_stored(call: Call) -> bool:
    """Return whether the function of a request writes or loads what it gets; an answer in JSON is only read."""
    return any(each.tail in _STORING for each in call.function.calls)


def _opened(call: Call, index: ProjectIndex) -> ast.Call | None:
    """Return the call that opened the archive of an extraction; None if it is not visible."""
    if not isinstance(call.node.func, ast.Attribute):
        return None
    value = call.node.func.value
    if isinstance(value, ast.Name):
        for each in ast.walk(call.function.node):
            for item in each.items if isinstance(each, ast.With) else ():
                is_name = isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == value.id
                if is_name and _opens(item.context_expr):
                    return item.context_expr if isinstance(item.context_expr, ast.Call) else None
    values = (value, *(origin.value for origin in index.origins(value, call.function, call.line)))
    return next((each for each in values if isinstance(each, ast.Call) and _opens(each)), None)


def _opens(value: ast.expr) -> bool:
    name = dotted(value.func) if isinstance(value, ast.Call) else ""
    return name in _TAR | _ZIP or tail_of(name) in {"ZipFile", "TarFile"}
