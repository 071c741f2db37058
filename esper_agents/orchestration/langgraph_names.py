"""Names of LangGraph, imported without what it needs in annotations or for its server alone.

`langgraph.runtime` names a type of `langgraph_sdk`, whose package imports HTTP clients, websockets and a terminal;
LangSmith names a type of `langsmith.types`, whose package imports a hundred modules of models. Together they take a
quarter of the import.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any

__all__ = ["END", "START", "Runtime", "StateGraph", "tracing_context"]

_PACKAGES = ("langgraph_sdk", "langsmith.types")
_LOCK = RLock()


class _DeferredPackage(ModuleType):
    """A package whose modules can be imported, and whose own code runs when one of its names is first used."""

    def __getattr__(self, name: str) -> Any:
        with _LOCK:
            if type(self) is _DeferredPackage:
                self.__class__ = ModuleType  # type: ignore[assignment]
                spec = self.__spec__
                if spec is not None and spec.loader is not None:
                    spec.loader.exec_module(self)
        return getattr(self, name)


def _defer(package: str) -> None:
    """Enter a package that is not imported yet, without running its code."""
    if package in sys.modules:
        return
    spec = find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        return
    module = module_from_spec(spec)
    module.__class__ = _DeferredPackage
    sys.modules[package] = module
    parent, _, name = package.rpartition(".")
    if parent:
        setattr(sys.modules[parent], name, module)


for _package in _PACKAGES:
    _defer(_package)

from langgraph.graph import END, START, StateGraph  # noqa: E402 - after the packages are deferred
from langgraph.runtime import Runtime  # noqa: E402
from langsmith import tracing_context  # noqa: E402
