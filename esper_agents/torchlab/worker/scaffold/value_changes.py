"""Changes of the other arguments of a plan: numbers, texts, modules, and which arguments there are.

Each takes a plan, the match of a message and the stage that failed, and yields changed plans.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .guesses import NORMAL, by_name, tensor
from .plan import CallPlan, Expression, TensorPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODULES = "nn.ModuleList([nn.Linear(64, 64), nn.Linear(64, 64)])"


def missing(plan: CallPlan, found: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield a plan with the arguments that a call lacks."""
    names = [each for each in re.findall(r"'(\w+)'", found.group(0)) if each not in dict(getattr(plan, blamed))]
    for name in names:
        plan = plan.with_argument(blamed, name, tensor(name) if blamed == "call" else by_name(name))
    if names:
        yield plan


def missing_key(plan: CallPlan, found: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield a plan with the keyword argument of a constructor that a lookup lacks."""
    if blamed == "make" and found.group(1) not in dict(plan.make):
        yield plan.with_argument(blamed, found.group(1), by_name(found.group(1)))


def unexpected(plan: CallPlan, found: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield a plan without the argument that a call does not take."""
    if found.group(1) in dict(getattr(plan, blamed)):
        yield plan.with_argument(blamed, found.group(1), None)


def pairs(plan: CallPlan, _: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield plans in which one number is a pair, or a list of two."""
    for where in dict.fromkeys((blamed, "make")):
        for name, value in getattr(plan, where):
            if isinstance(value, Expression) and re.fullmatch(r"[\d.]+", value.text):
                yield plan.with_argument(where, name, Expression(f"({value.text}, {value.text})"))
                yield plan.with_argument(where, name, Expression(f"[{value.text}, {value.text}]"))
                if re.search(r"layer|block|module|net|encoder|expert|head", name.lower()):
                    yield plan.with_argument(where, name, Expression(_MODULES))
                    yield plan.with_argument(where, name, Expression(f"[{_MODULES}, {_MODULES}]"))


def single(plan: CallPlan, _: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield plans in which a pair or a list is its first element."""
    for name, value in getattr(plan, blamed):
        if isinstance(value, Expression) and value.text.startswith(("(", "[")):
            yield plan.with_argument(blamed, name, Expression(value.text.strip("([])").split(",")[0] or "4"))


def divisible(plan: CallPlan, _: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield a plan whose numbers are powers of two."""
    for rounded in ("64", "32"):
        made = plan
        for name, value in getattr(plan, blamed):
            if isinstance(value, Expression) and value.text.isdigit() and int(value.text) > 4:  # noqa: PLR2004 - counts stay
                made = made.with_argument(blamed, name, Expression(rounded))
        if made != plan:
            yield made


def module_wanted(plan: CallPlan, _: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield plans in which an argument is a module, its class or a function."""
    for text in ("nn.Linear(64, 64)", "nn.ReLU", "nn.ReLU()", "nn.BatchNorm2d", "torch.relu"):
        for name, value in getattr(plan, blamed):
            if isinstance(value, Expression) and value.text != text:
                yield plan.with_argument(blamed, name, Expression(text))


def tensor_wanted(plan: CallPlan, _: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield plans in which an argument is a tensor."""
    for where in dict.fromkeys((blamed, "call", "make")):
        for name, value in getattr(plan, where):
            if isinstance(value, Expression) and not value.text.startswith("Settings"):
                yield plan.with_argument(where, name, tensor(name))


def number_wanted(plan: CallPlan, _: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield plans in which an argument is a number."""
    for where in dict.fromkeys((blamed, "make", "call")):
        for name, value in getattr(plan, where):
            if isinstance(value, TensorPlan) or not re.fullmatch(r"[\d.]+", value.text):
                yield plan.with_argument(
                    where, name, by_name(name) if re.fullmatch(r"[\d.]+", by_name(name).text) else Expression("4")
                )


def options(plan: CallPlan, found: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield plans with one of the texts that the message lists."""
    said = re.findall(r"['\"]([\w.+-]{1,30})['\"]", found.group(0))
    for where in dict.fromkeys((blamed, "make")):
        for name, value in getattr(plan, where):
            if isinstance(value, Expression) and value.text.startswith(('"', "'")):
                for each in said[:6]:
                    if each != value.text.strip("\"'"):
                        yield plan.with_argument(where, name, Expression(f'"{each}"'))


def whole(plan: CallPlan, _: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield plans in which fractions are whole numbers."""
    for where in dict.fromkeys((blamed, "make")):
        for name, value in getattr(plan, where):
            if isinstance(value, Expression) and re.fullmatch(r"[\d.e-]*[.e][\d.e-]*", value.text):
                yield plan.with_argument(where, name, Expression("4"))


def stated(plan: CallPlan, found: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield plans in which a number is the one that a message states."""
    for where in dict.fromkeys((blamed, "make")):
        for name, value in getattr(plan, where):
            if isinstance(value, Expression) and value.text.isdigit() and value.text != found.group(1):
                yield plan.with_argument(where, name, Expression(found.group(1)))


def distribution(plan: CallPlan, _: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield plans in which an argument is a distribution."""
    for where in dict.fromkeys((blamed, "call", "make")):
        for name, value in getattr(plan, where):
            if value.text != NORMAL:
                yield plan.with_argument(where, name, Expression(NORMAL))


def mapping(plan: CallPlan, _: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    """Yield plans in which an argument is a dictionary."""
    for where in dict.fromkeys((blamed, "call", "make")):
        for name, value in getattr(plan, where):
            if isinstance(value, Expression) and not value.text.startswith(("{", "Settings")):
                yield plan.with_argument(where, name, Expression("{}"))
                yield plan.with_argument(where, name, Expression(f"{{'{name}': torch.randn((2, 64))}}"))
