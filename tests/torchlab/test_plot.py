"""Plots are well-formed whatever stands in them, and what they show is what was measured."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from esper_agents.domain.quantities import bytes_text, percent, time_text
from esper_agents.torchlab.plot import memory_plot, profile_plot
from esper_agents.torchlab.profiling.result import (
    AchievedRates,
    Bottleneck,
    BottleneckAnalysis,
    Bound,
    CallCost,
    CallOverhead,
    CallSplit,
    Ceilings,
    ProfiledOperation,
)

HOSTILE = "</text><script>alert(1)</script>&\x00\x1b[31m\ud800 \u202e"


def operation(
    name: str, phase: str, share: float, bound: Bound, *, file: str | None = None, module: str = ""
) -> ProfiledOperation:
    return ProfiledOperation(
        name=name,
        phase=phase,
        file=file,
        line=3,
        function=None,
        module=module,
        modules=(),
        shapes="",
        dtype="",
        count=1,
        self_ns=1,
        work_ns=1,
        allocation_ns=0,
        share=share,
        bound=bound,
    )


CALL = CallCost(1_500_000, 1_500_000, 0, 1_500_000, 1_500_000, 0.0, 3, 3, 1, 1, 1.0, 0)
ANALYSIS = BottleneckAnalysis(
    bottleneck=Bottleneck.COMPUTE,
    share=0.75,
    runner_up=Bottleneck.OVERHEAD,
    margin=0.5,
    is_clear=True,
    shares={"cpu-compute": 0.75, "dispatch-and-python": 0.25, "gpu": 0.0},
    call=CALL,
    split=CallSplit(0.0, 1.0, 0.0, 0.0),
    overhead=CallOverhead(2, 0, 1, 0, 0),
    ceilings=Ceilings({}, (), 1, 1),
    achieved=AchievedRates(0, 0, 0, 0, 0.0),
    operations=(
        operation(HOSTILE, "backward", 0.5, Bound.COMPUTE, file=HOSTILE),
        operation("aten::add", "forward", 0.25, Bound.DISPATCH, module="Net.a"),
    ),
    lines=(),
    modules=(),
    functions=(),
)
SVG = "{http://www.w3.org/2000/svg}"


def texts(plot: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(plot).iter(f"{SVG}text")]  # noqa: S314 - our own text


def test_hostile_names_stay_text():
    plot = profile_plot(HOSTILE, ANALYSIS, [])
    root = ET.fromstring(plot)  # noqa: S314 - our own text
    assert {each.tag for each in root.iter()} == {f"{SVG}svg", f"{SVG}rect", f"{SVG}text"}
    assert any("<script>" in text for text in texts(plot))


def test_each_share_and_operation_has_its_bar():
    plot = profile_plot("a.py:f", ANALYSIS, [])
    shown = texts(plot)
    assert "a.py:f: 1.5 ms a call, bound by cpu-compute" in shown
    assert {"cpu-compute", "dispatch-and-python", "add Net.a", "75 %", "25 % dispatch"} <= set(shown)
    assert "gpu" not in shown


def test_a_timeline_shows_its_peak_and_its_length():
    shown = texts(
        memory_plot("memory", [("a step", [(0, 0), (1_000, 3 << 20), (2_000, 0)])], [("parameters", 1 << 10)])
    )
    assert {"memory", "a step", "3 MiB", "2 us", "parameters", "1 KiB"} <= set(shown)


def test_a_timeline_of_one_point_draws_nothing():
    assert "<path" not in memory_plot("memory", [("a step", [(0, 0)])])


def test_numbers_are_written_in_the_unit_that_suits_them():
    assert [time_text(ns) for ns in (7, 1_500, 2_000_000, 3e9)] == ["7 ns", "1.5 us", "2 ms", "3 s"]
    assert [bytes_text(size) for size in (7, 1 << 10, 3 << 20, 5 << 30)] == ["7 B", "1 KiB", "3 MiB", "5 GiB"]
    assert [percent(share) for share in (0, 0.054, 0.54)] == ["0 %", "5.4 %", "54 %"]


def test_a_timeline_below_nothing_stays_inside_the_drawing():
    plot = memory_plot("memory", [("a step", [(0, 0), (1_000, -(3 << 20)), (2_000, 1 << 20)])])
    root = ET.fromstring(plot)  # noqa: S314 - our own text
    heights = [float(each) for path in root.iter(f"{SVG}path") for each in re.findall(r"V([-\d.]+)", path.get("d", ""))]
    assert 0 <= min(heights) <= max(heights) <= float(root.get("height", 0))
