"""The public API of esper-agents: open a project, submit, stream, resume, read.

    import asyncio

    from esper_agents.api import open_project

    async with open_project("~/my-model") as project:
        task = project.tasks.create("review this training code", ["~/my-model/train.py"])
        session = await project.tasks.submit(task)
        running = asyncio.create_task(session.run())
        async for event in session.events():
            print(event.kind)
        outcome = await running
        print(outcome.certificate.status)

`open_project_sync` provides the same without `await`, also in notebooks:

    from esper_agents.api import open_project_sync

    with open_project_sync("~/my-model") as project:
        task = project.tasks.create("review this training code", ["~/my-model/train.py"])
        outcome = project.tasks.submit(task).run()
        print(outcome.certificate.status)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from esper_agents.renamed import aliases

if TYPE_CHECKING:
    from esper_agents.api.commands import commands_of as commands_of
    from esper_agents.api.commands import paths_among as paths_among
    from esper_agents.api.commands import task_of as task_of
    from esper_agents.api.measure import StoredReport as StoredReport
    from esper_agents.api.measurement_lab import MeasurementInputs as MeasurementInputs
    from esper_agents.api.measurement_lab import MeasurementLab as MeasurementLab
    from esper_agents.api.measurement_lab import open_measurement_lab as open_measurement_lab
    from esper_agents.api.memory import RedactionResult as RedactionResult
    from esper_agents.api.models import ModelCostPreview as ModelCostPreview
    from esper_agents.api.project import OpenProject as OpenProject
    from esper_agents.api.project import open_project as open_project
    from esper_agents.api.session import Session as Session
    from esper_agents.api.session import SessionResult as SessionResult
    from esper_agents.api.sync import SyncProject as SyncProject
    from esper_agents.api.sync import SyncSession as SyncSession
    from esper_agents.api.sync import open_project_sync as open_project_sync
    from esper_agents.api.target_project import TargetProject as TargetProject
    from esper_agents.api.tasks import TaskPlan as TaskPlan
    from esper_agents.api.worker import QueueWorker as QueueWorker
    from esper_agents.api.worker import open_worker as open_worker
    from esper_agents.api.worker_events import WorkerEvent as WorkerEvent
    from esper_agents.certificates.archive import CertificateSummary as CertificateSummary
    from esper_agents.certificates.check import Check as Check
    from esper_agents.certificates.check import CheckOutcome as CheckOutcome
    from esper_agents.certificates.exporting import ExportResult as ExportResult
    from esper_agents.certificates.filters import Filter as Filter
    from esper_agents.certificates.search import SearchHit as SearchHit
    from esper_agents.certificates.signing.allowed_signers import Signer as Signer
    from esper_agents.certificates.standing import Override as Override
    from esper_agents.certificates.standing import SupersedingEntry as SupersedingEntry
    from esper_agents.certificates.trends import MetricSummary as MetricSummary
    from esper_agents.certificates.trends import Point as Point
    from esper_agents.domain.agent_action import Ask as Ask
    from esper_agents.domain.agent_action import CallTools as CallTools
    from esper_agents.domain.agent_action import Conclude as Conclude
    from esper_agents.domain.agent_action import Consult as Consult
    from esper_agents.domain.agent_action import HandOff as HandOff
    from esper_agents.domain.agent_action import Panel as Panel
    from esper_agents.domain.agent_action import ToolCall as ToolCall
    from esper_agents.domain.answer_type import AnswerType as AnswerType
    from esper_agents.domain.budget import read_budget as read_budget
    from esper_agents.domain.evidence import Risk as Risk
    from esper_agents.domain.evidence import source_file as source_file
    from esper_agents.domain.frame import Brief as Brief
    from esper_agents.memory.import_export import ImportResult as ImportResult
    from esper_agents.orchestration.answers import PendingQuestion as PendingQuestion
    from esper_agents.orchestration.repair import RepairResult as RepairResult
    from esper_agents.orchestration.replay import ReplayResult as ReplayResult
    from esper_agents.orchestration.retention import Prunable as Prunable
    from esper_agents.storage.model_usage import ModelUsage as ModelUsage
    from esper_agents.tools.tool import Tool as Tool
    from esper_agents.tools.tool import ToolContext as ToolContext
    from esper_agents.tools.tool import ToolResult as ToolResult
    from esper_agents.tools.tool import tool as tool
    from esper_agents.torchlab.capture import CapturedTarget as CapturedTarget
    from esper_agents.torchlab.compare.change_control import ChangeControl as ChangeControl
    from esper_agents.torchlab.compare.compare import ComparisonMode as ComparisonMode
    from esper_agents.torchlab.compare.compare import ComparisonRequest as ComparisonRequest
    from esper_agents.torchlab.compare.compare import Effort as Effort
    from esper_agents.torchlab.compare.correctness import OutputMetric as OutputMetric
    from esper_agents.torchlab.compare.measure import Arm as Arm
    from esper_agents.torchlab.compare.verdict import ComparisonOutcome as ComparisonOutcome
    from esper_agents.torchlab.lab import LabSettings as LabSettings
    from esper_agents.torchlab.measurement import MeasurementDescriptor as MeasurementDescriptor
    from esper_agents.torchlab.measurement import MeasurementOption as MeasurementOption
    from esper_agents.torchlab.measurement import ReportSection as ReportSection
    from esper_agents.torchlab.measurement import measurements as measurements
    from esper_agents.torchlab.measurements.data import DataOptions as DataOptions
    from esper_agents.torchlab.measurements.data import DataResult as DataResult
    from esper_agents.torchlab.report import MeasurementReport as MeasurementReport
    from esper_agents.torchlab.target import TargetSpec as TargetSpec
    from esper_agents.torchlab.watch import LineRange as LineRange
    from esper_agents.torchlab.worker_failure import WorkerError as WorkerError

# Modules are imported when a name of theirs is used first; a test compares the table with the imports above.
_NAMES = {
    "esper_agents.api.commands": ("commands_of", "paths_among", "task_of"),
    "esper_agents.api.measure": ("StoredReport",),
    "esper_agents.api.measurement_lab": ("MeasurementInputs", "MeasurementLab", "open_measurement_lab"),
    "esper_agents.api.memory": ("RedactionResult",),
    "esper_agents.api.models": ("ModelCostPreview",),
    "esper_agents.api.project": ("OpenProject", "open_project"),
    "esper_agents.api.session": ("Session", "SessionResult"),
    "esper_agents.api.sync": ("SyncProject", "SyncSession", "open_project_sync"),
    "esper_agents.api.target_project": ("TargetProject",),
    "esper_agents.api.tasks": ("TaskPlan",),
    "esper_agents.api.worker": ("QueueWorker", "open_worker"),
    "esper_agents.api.worker_events": ("WorkerEvent",),
    "esper_agents.certificates.archive": ("CertificateSummary",),
    "esper_agents.certificates.check": ("Check", "CheckOutcome"),
    "esper_agents.certificates.exporting": ("ExportResult",),
    "esper_agents.certificates.filters": ("Filter",),
    "esper_agents.certificates.search": ("SearchHit",),
    "esper_agents.certificates.signing.allowed_signers": ("Signer",),
    "esper_agents.certificates.standing": ("Override", "SupersedingEntry"),
    "esper_agents.certificates.trends": ("MetricSummary", "Point"),
    "esper_agents.domain.agent_action": ("Ask", "CallTools", "Conclude", "Consult", "HandOff", "Panel", "ToolCall"),
    "esper_agents.domain.answer_type": ("AnswerType",),
    "esper_agents.domain.budget": ("read_budget",),
    "esper_agents.domain.evidence": ("Risk", "source_file"),
    "esper_agents.domain.frame": ("Brief",),
    "esper_agents.memory.import_export": ("ImportResult",),
    "esper_agents.orchestration.answers": ("PendingQuestion",),
    "esper_agents.orchestration.repair": ("RepairResult",),
    "esper_agents.orchestration.replay": ("ReplayResult",),
    "esper_agents.orchestration.retention": ("Prunable",),
    "esper_agents.storage.model_usage": ("ModelUsage",),
    "esper_agents.tools.tool": ("Tool", "ToolContext", "ToolResult", "tool"),
    "esper_agents.torchlab.capture": ("CapturedTarget",),
    "esper_agents.torchlab.compare.change_control": ("ChangeControl",),
    "esper_agents.torchlab.compare.compare": ("ComparisonMode", "ComparisonRequest", "Effort"),
    "esper_agents.torchlab.compare.correctness": ("OutputMetric",),
    "esper_agents.torchlab.compare.measure": ("Arm",),
    "esper_agents.torchlab.compare.verdict": ("ComparisonOutcome",),
    "esper_agents.torchlab.lab": ("LabSettings",),
    "esper_agents.torchlab.measurement": (
        "MeasurementDescriptor",
        "MeasurementOption",
        "ReportSection",
        "measurements",
    ),
    "esper_agents.torchlab.measurements.data": ("DataOptions", "DataResult"),
    "esper_agents.torchlab.report": ("MeasurementReport",),
    "esper_agents.torchlab.target": ("TargetSpec",),
    "esper_agents.torchlab.watch": ("LineRange",),
    "esper_agents.torchlab.worker_failure": ("WorkerError",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
_renamed = aliases(__name__, {"Outcome": "SessionResult", "Plan": "TaskPlan", "UseTools": "CallTools"})

__all__ = [
    "AnswerType",
    "Arm",
    "Ask",
    "Brief",
    "CallTools",
    "CapturedTarget",
    "CertificateSummary",
    "ChangeControl",
    "Check",
    "CheckOutcome",
    "ComparisonMode",
    "ComparisonOutcome",
    "ComparisonRequest",
    "Conclude",
    "Consult",
    "DataOptions",
    "DataResult",
    "Effort",
    "ExportResult",
    "Filter",
    "HandOff",
    "ImportResult",
    "LabSettings",
    "LineRange",
    "MeasurementDescriptor",
    "MeasurementInputs",
    "MeasurementLab",
    "MeasurementOption",
    "MeasurementReport",
    "MetricSummary",
    "ModelCostPreview",
    "ModelUsage",
    "OpenProject",
    "OutputMetric",
    "Override",
    "Panel",
    "PendingQuestion",
    "Point",
    "Prunable",
    "QueueWorker",
    "RedactionResult",
    "RepairResult",
    "ReplayResult",
    "ReportSection",
    "Risk",
    "SearchHit",
    "Session",
    "SessionResult",
    "Signer",
    "StoredReport",
    "SupersedingEntry",
    "SyncProject",
    "SyncSession",
    "TargetProject",
    "TargetSpec",
    "TaskPlan",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "WorkerError",
    "WorkerEvent",
    "commands_of",
    "measurements",
    "open_measurement_lab",
    "open_project",
    "open_project_sync",
    "open_worker",
    "paths_among",
    "read_budget",
    "source_file",
    "task_of",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        return _renamed(name)
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
