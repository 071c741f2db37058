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
    from esper_agents.agents.agent_packs import Pack as Pack
    from esper_agents.agents.agent_packs import Packs as Packs
    from esper_agents.agents.commands import Command as Command
    from esper_agents.agents.commands import Commands as Commands
    from esper_agents.agents.plugin_store import Installed as Installed
    from esper_agents.agents.plugin_store import add_plugin as add_plugin
    from esper_agents.agents.plugin_store import installed_plugins as installed_plugins
    from esper_agents.agents.plugin_store import remove_plugin as remove_plugin
    from esper_agents.agents.plugins import Plugin as Plugin
    from esper_agents.agents.registry import Registry as Registry
    from esper_agents.agents.skill_library import SkillLibrary as SkillLibrary
    from esper_agents.api.agents import AgentCatalog as AgentCatalog
    from esper_agents.api.agents import AgentDetails as AgentDetails
    from esper_agents.api.agents import LintResult as LintResult
    from esper_agents.api.agents import MissingTool as MissingTool
    from esper_agents.api.agents import commands_of as commands_of
    from esper_agents.api.agents import load_agents as load_agents
    from esper_agents.api.agents import missing_tools as missing_tools
    from esper_agents.api.agents import paths_among as paths_among
    from esper_agents.api.agents import task_of as task_of
    from esper_agents.api.archives import export_archive as export_archive
    from esper_agents.api.archives import import_archive as import_archive
    from esper_agents.api.browsing import CertificatePresentation as CertificatePresentation
    from esper_agents.api.certificates import PublishedPaths as PublishedPaths
    from esper_agents.api.checkouts import Checkout as Checkout
    from esper_agents.api.checkouts import find_checkout as find_checkout
    from esper_agents.api.checkouts import find_checkouts as find_checkouts
    from esper_agents.api.checkouts import join_checkout as join_checkout
    from esper_agents.api.cluster.split_work import review_on_ray as review_on_ray
    from esper_agents.api.cluster.split_work import verify_archive_on_ray as verify_archive_on_ray
    from esper_agents.api.cluster.status import ClusterNode as ClusterNode
    from esper_agents.api.cluster.status import ClusterStatus as ClusterStatus
    from esper_agents.api.cluster.status import cluster_status as cluster_status
    from esper_agents.api.cluster.worker_group import WorkerGroup as WorkerGroup
    from esper_agents.api.cluster.worker_group import WorkerGroupSettings as WorkerGroupSettings
    from esper_agents.api.cluster.worker_group import open_worker_group as open_worker_group
    from esper_agents.api.code_hosts import COMMENT_MARKER as COMMENT_MARKER
    from esper_agents.api.code_hosts import CodeHost as CodeHost
    from esper_agents.api.code_hosts import PostedComment as PostedComment
    from esper_agents.api.code_hosts import PullRequest as PullRequest
    from esper_agents.api.code_hosts import post_comment as post_comment
    from esper_agents.api.code_hosts import pull_request_of as pull_request_of
    from esper_agents.api.completion import agent_names as agent_names
    from esper_agents.api.completion import recent_ids as recent_ids
    from esper_agents.api.completion import rule_codes as rule_codes
    from esper_agents.api.database import DatabaseBackup as DatabaseBackup
    from esper_agents.api.database import back_up_database as back_up_database
    from esper_agents.api.database import database_grants as database_grants
    from esper_agents.api.database import database_status as database_status
    from esper_agents.api.database import upgrade_database as upgrade_database
    from esper_agents.api.database import vacuum_database as vacuum_database
    from esper_agents.api.document_audit import audit_documents as audit_documents
    from esper_agents.api.document_audit import audit_problem_meanings as audit_problem_meanings
    from esper_agents.api.evaluation import chosen_tasks as chosen_tasks
    from esper_agents.api.evaluation import load_suite as load_suite
    from esper_agents.api.evaluation import prompts_digest as prompts_digest
    from esper_agents.api.evaluation import read_run as read_run
    from esper_agents.api.evaluation import run_suite as run_suite
    from esper_agents.api.evaluation import run_text as run_text
    from esper_agents.api.evaluation import suite_names as suite_names
    from esper_agents.api.extension_skeletons import ExtensionKind as ExtensionKind
    from esper_agents.api.extension_skeletons import ExtensionSkeleton as ExtensionSkeleton
    from esper_agents.api.extension_skeletons import new_extension as new_extension
    from esper_agents.api.filters import read_filter as read_filter
    from esper_agents.api.filters import read_session_filter as read_session_filter
    from esper_agents.api.health_checks import DatabaseContents as DatabaseContents
    from esper_agents.api.health_checks import HealthProblem as HealthProblem
    from esper_agents.api.health_checks import HealthReport as HealthReport
    from esper_agents.api.health_checks import check_health as check_health
    from esper_agents.api.inspection import QueryDescription as QueryDescription
    from esper_agents.api.inspection import inspect_code as inspect_code
    from esper_agents.api.inspection import list_queries as list_queries
    from esper_agents.api.keys import AcceptedKeys as AcceptedKeys
    from esper_agents.api.keys import EnrolledKeys as EnrolledKeys
    from esper_agents.api.keys import KeyListing as KeyListing
    from esper_agents.api.keys import KeyTrust as KeyTrust
    from esper_agents.api.keys import PublicKey as PublicKey
    from esper_agents.api.keys import PublishedKey as PublishedKey
    from esper_agents.api.keys import RevokedKey as RevokedKey
    from esper_agents.api.keys import RotatedKeys as RotatedKeys
    from esper_agents.api.keys import TrustedKeyList as TrustedKeyList
    from esper_agents.api.keys import accept_project_keys as accept_project_keys
    from esper_agents.api.keys import enroll_keys as enroll_keys
    from esper_agents.api.keys import export_key as export_key
    from esper_agents.api.keys import find_published_key as find_published_key
    from esper_agents.api.keys import list_keys as list_keys
    from esper_agents.api.keys import revoke_key as revoke_key
    from esper_agents.api.keys import rotate_key as rotate_key
    from esper_agents.api.keys import trust_key as trust_key
    from esper_agents.api.keys import trust_keys as trust_keys
    from esper_agents.api.measure import StoredReport as StoredReport
    from esper_agents.api.measure import recheck_report as recheck_report
    from esper_agents.api.measurement_lab import MeasurementInputs as MeasurementInputs
    from esper_agents.api.measurement_lab import MeasurementLab as MeasurementLab
    from esper_agents.api.measurement_lab import open_measurement_lab as open_measurement_lab
    from esper_agents.api.measurement_lab import report_folder as report_folder
    from esper_agents.api.measurement_lab import with_captured_inputs as with_captured_inputs
    from esper_agents.api.memory import RedactionResult as RedactionResult
    from esper_agents.api.models import ModelCostPreview as ModelCostPreview
    from esper_agents.api.plugin_builder import BuiltPlugin as BuiltPlugin
    from esper_agents.api.plugin_builder import build_plugin as build_plugin
    from esper_agents.api.project import OpenProject as OpenProject
    from esper_agents.api.project import open_project as open_project
    from esper_agents.api.project_setup import SetupPart as SetupPart
    from esper_agents.api.project_setup import SetupState as SetupState
    from esper_agents.api.project_setup import SetupStep as SetupStep
    from esper_agents.api.project_setup import plan_setup as plan_setup
    from esper_agents.api.project_setup import set_up as set_up
    from esper_agents.api.pull_requests import FilePatch as FilePatch
    from esper_agents.api.pull_requests import PullRequestReview as PullRequestReview
    from esper_agents.api.pull_requests import review_pull_request as review_pull_request
    from esper_agents.api.review import LineReview as LineReview
    from esper_agents.api.review import ReviewOptions as ReviewOptions
    from esper_agents.api.review import fix_files as fix_files
    from esper_agents.api.review import fixes_as_patch as fixes_as_patch
    from esper_agents.api.review import review_as_sarif as review_as_sarif
    from esper_agents.api.review import review_files as review_files
    from esper_agents.api.review import review_line as review_line
    from esper_agents.api.review import write_baseline as write_baseline
    from esper_agents.api.rules import RuleDescription as RuleDescription
    from esper_agents.api.rules import lint_rules as lint_rules
    from esper_agents.api.rules import rule_page as rule_page
    from esper_agents.api.session import Session as Session
    from esper_agents.api.session import SessionResult as SessionResult
    from esper_agents.api.stack_traces import ExplainedCommand as ExplainedCommand
    from esper_agents.api.stack_traces import TraceService as TraceService
    from esper_agents.api.stack_traces import explain_command as explain_command
    from esper_agents.api.stack_traces import explain_trace as explain_trace
    from esper_agents.api.stack_traces import is_error_text as is_error_text
    from esper_agents.api.stack_traces import read_trace_file as read_trace_file
    from esper_agents.api.sync import SyncProject as SyncProject
    from esper_agents.api.sync import SyncSession as SyncSession
    from esper_agents.api.sync import open_project_sync as open_project_sync
    from esper_agents.api.target_project import TargetProject as TargetProject
    from esper_agents.api.target_project import current_project as current_project
    from esper_agents.api.target_project import find_target_project as find_target_project
    from esper_agents.api.tasks import TaskPlan as TaskPlan
    from esper_agents.api.traces import SessionTrace as SessionTrace
    from esper_agents.api.traces import collector_url as collector_url
    from esper_agents.api.verification import check_coverage as check_coverage
    from esper_agents.api.verification import read_trusted_keys as read_trusted_keys
    from esper_agents.api.verification import verify_archive as verify_archive
    from esper_agents.api.verification import verify_certificate as verify_certificate
    from esper_agents.api.witness_client import request_cosignature as request_cosignature
    from esper_agents.api.witnesses import CosignedFile as CosignedFile
    from esper_agents.api.witnesses import WitnessRun as WitnessRun
    from esper_agents.api.witnesses import cosign_published as cosign_published
    from esper_agents.api.witnesses import cosign_request as cosign_request
    from esper_agents.api.witnesses import demanded_witnesses as demanded_witnesses
    from esper_agents.api.witnesses import publish_log as publish_log
    from esper_agents.api.worker import QueueWorker as QueueWorker
    from esper_agents.api.worker import open_worker as open_worker
    from esper_agents.api.worker_events import WorkerEvent as WorkerEvent
    from esper_agents.archive.certificate_diff import CertificateDiff as CertificateDiff
    from esper_agents.archive.certified_source import CertifiedSource as CertifiedSource
    from esper_agents.archive.export import ExportResult as ExportResult
    from esper_agents.archive.finding_history import FindingHistory as FindingHistory
    from esper_agents.archive.import_certificates import ImportCount as ImportCount
    from esper_agents.archive.import_certificates import ImportedCertificate as ImportedCertificate
    from esper_agents.archive.log_listing import LogPage as LogPage
    from esper_agents.archive.metrics import amount_text as amount_text
    from esper_agents.archive.metrics import spark_line as spark_line
    from esper_agents.archive.pruned_pages import PrunablePages as PrunablePages
    from esper_agents.archive.published.combined import PublishedStatus as PublishedStatus
    from esper_agents.archive.published.combined import UntrustedKey as UntrustedKey
    from esper_agents.archive.published.scan import RefusedFile as RefusedFile
    from esper_agents.archive.repair import RepairResult as RepairResult
    from esper_agents.archive.retention import Prunable as Prunable
    from esper_agents.archive.search.filters import Filter as Filter
    from esper_agents.archive.search.search import SearchHit as SearchHit
    from esper_agents.archive.store import CertificateOrigin as CertificateOrigin
    from esper_agents.archive.store import CertificateSummary as CertificateSummary
    from esper_agents.archive.transfer.archive_file import ArchiveCounts as ArchiveCounts
    from esper_agents.archive.trends import MetricSummary as MetricSummary
    from esper_agents.archive.trends import Point as Point
    from esper_agents.archive.value_counts import ValueCount as ValueCount
    from esper_agents.archive.value_counts import ValueCounts as ValueCounts
    from esper_agents.archive.verification.coverage import CoverageState as CoverageState
    from esper_agents.archive.verification.coverage import FileCoverage as FileCoverage
    from esper_agents.archive.verification.files import SubjectCheck as SubjectCheck
    from esper_agents.archive.verification.files import SubjectState as SubjectState
    from esper_agents.archive.verification.gate import GateResult as GateResult
    from esper_agents.archive.verification.supersession import Override as Override
    from esper_agents.archive.verification.supersession import SupersedingEntry as SupersedingEntry
    from esper_agents.archive.verification.verify import FreshnessState as FreshnessState
    from esper_agents.archive.verification.verify import RepositoryState as RepositoryState
    from esper_agents.archive.verification.verify import VerificationResult as VerificationResult
    from esper_agents.archive.verification.verify_all import ArchiveVerification as ArchiveVerification
    from esper_agents.archive.verification.verify_all import NamedVerification as NamedVerification
    from esper_agents.certificates.audit.auditing import AuditedDocument as AuditedDocument
    from esper_agents.certificates.audit.auditing import DocumentAudit as DocumentAudit
    from esper_agents.certificates.check import Check as Check
    from esper_agents.certificates.check import CheckOutcome as CheckOutcome
    from esper_agents.certificates.check import combine_outcomes as combine_outcomes
    from esper_agents.certificates.redaction import redacted as redacted
    from esper_agents.certificates.redaction import secrets_of as secrets_of
    from esper_agents.certificates.signing.allowed_signers import RefusedLine as RefusedLine
    from esper_agents.certificates.signing.allowed_signers import Signer as Signer
    from esper_agents.certificates.signing.signing_key import take_key_file as take_key_file
    from esper_agents.certificates.suggested_command import ParsedCommand as ParsedCommand
    from esper_agents.certificates.suggested_command import parse_command as parse_command
    from esper_agents.certificates.suggested_command import seen_from as seen_from
    from esper_agents.certificates.views.escaping import EscapedText as EscapedText
    from esper_agents.certificates.views.explanation import VerdictExplanation as VerdictExplanation
    from esper_agents.certificates.views.html import html_environment as html_environment
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
    from esper_agents.domain.finding import Category as Category
    from esper_agents.domain.finding import Confidence as Confidence
    from esper_agents.domain.finding import Diagnostic as Diagnostic
    from esper_agents.domain.finding import Location as Location
    from esper_agents.domain.finding import Severity as Severity
    from esper_agents.domain.frame import Brief as Brief
    from esper_agents.domain.gate_level import GateLevel as GateLevel
    from esper_agents.domain.stack_trace import StackTrace as StackTrace
    from esper_agents.domain.stack_trace import TraceFrame as TraceFrame
    from esper_agents.errors import EsperError as EsperError
    from esper_agents.errors import EvidenceError as EvidenceError
    from esper_agents.errors import UsageError as UsageError
    from esper_agents.learning.model_wording import Wording as Wording
    from esper_agents.learning.proposals import Proposal as Proposal
    from esper_agents.learning.report import Retrospect as Retrospect
    from esper_agents.memory.import_export import ImportResult as ImportResult
    from esper_agents.observing.event_lines import current_activity as current_activity
    from esper_agents.observing.event_lines import event_lines as event_lines
    from esper_agents.observing.event_lines import route_line as route_line
    from esper_agents.observing.session_timeline import session_timeline as session_timeline
    from esper_agents.orchestration.answers import PendingQuestion as PendingQuestion
    from esper_agents.orchestration.drift import ChangedError as ChangedError
    from esper_agents.orchestration.replay import ReplayResult as ReplayResult
    from esper_agents.review.annotations import as_annotations as as_annotations
    from esper_agents.review.baseline import BaselineEntry as BaselineEntry
    from esper_agents.review.fact_query import Assessment as Assessment
    from esper_agents.review.fact_query import Fact as Fact
    from esper_agents.review.fact_query import InspectionSubject as InspectionSubject
    from esper_agents.review.inspection import ClaimState as ClaimState
    from esper_agents.review.inspection import Inspection as Inspection
    from esper_agents.review.inspection import QueryResult as QueryResult
    from esper_agents.review.outcome import ReviewOutcome as ReviewOutcome
    from esper_agents.review.outcome import UnfixedDiagnostic as UnfixedDiagnostic
    from esper_agents.review.report import Progress as Progress
    from esper_agents.review.report import ReviewReport as ReviewReport
    from esper_agents.review.report import SuppressedDiagnostic as SuppressedDiagnostic
    from esper_agents.review.rule import FileRule as FileRule
    from esper_agents.review.rule import Rule as Rule
    from esper_agents.review.rule import RuleMatch as RuleMatch
    from esper_agents.review.source import Unreadable as Unreadable
    from esper_agents.review.tables import FileTables as FileTables
    from esper_agents.storage.maintenance import DatabaseStatus as DatabaseStatus
    from esper_agents.storage.model_usage import ModelUsage as ModelUsage
    from esper_agents.tools.tool import Tool as Tool
    from esper_agents.tools.tool import ToolContext as ToolContext
    from esper_agents.tools.tool import ToolResult as ToolResult
    from esper_agents.tools.tool import tool as tool
    from esper_agents.torchlab.capture import CapturedTarget as CapturedTarget
    from esper_agents.torchlab.compare.change_control import ChangeControl as ChangeControl
    from esper_agents.torchlab.compare.change_control import base_revision as base_revision
    from esper_agents.torchlab.compare.compare import ComparisonMode as ComparisonMode
    from esper_agents.torchlab.compare.compare import ComparisonRequest as ComparisonRequest
    from esper_agents.torchlab.compare.correctness import OutputMetric as OutputMetric
    from esper_agents.torchlab.compare.measure import Arm as Arm
    from esper_agents.torchlab.compare.result import ComparisonOutcome as ComparisonOutcome
    from esper_agents.torchlab.effort import Effort as Effort
    from esper_agents.torchlab.lab import LabSettings as LabSettings
    from esper_agents.torchlab.measurement import MeasurementDescriptor as MeasurementDescriptor
    from esper_agents.torchlab.measurement import MeasurementOption as MeasurementOption
    from esper_agents.torchlab.measurement import PreparedOptions as PreparedOptions
    from esper_agents.torchlab.measurement import ReportSection as ReportSection
    from esper_agents.torchlab.measurement import measurements as measurements
    from esper_agents.torchlab.measurements.data import DataOptions as DataOptions
    from esper_agents.torchlab.measurements.data import DataResult as DataResult
    from esper_agents.torchlab.measurements.scaffold import ScaffoldOptions as ScaffoldOptions
    from esper_agents.torchlab.measurements.test import DraftOptions as DraftOptions
    from esper_agents.torchlab.measurements.watch import LineRange as LineRange
    from esper_agents.torchlab.report import MeasurementReport as MeasurementReport
    from esper_agents.torchlab.target import TargetSpec as TargetSpec
    from esper_agents.torchlab.warm_parent import seconds_to_stay as seconds_to_stay
    from esper_agents.torchlab.worker_failure import WorkerError as WorkerError
    from esper_agents.traces.explain import TraceExplanation as TraceExplanation

# Modules are imported when a name of theirs is used first; a test compares the table with the imports above.
_NAMES = {
    "esper_agents.observing.event_lines": (
        "current_activity",
        "event_lines",
        "route_line",
    ),
    "esper_agents.observing.session_timeline": ("session_timeline",),
    "esper_agents.certificates.views.escaping": ("EscapedText",),
    "esper_agents.certificates.views.html": ("html_environment",),
    "esper_agents.archive.value_counts": (
        "ValueCount",
        "ValueCounts",
    ),
    "esper_agents.archive.certified_source": ("CertifiedSource",),
    "esper_agents.archive.finding_history": ("FindingHistory",),
    "esper_agents.archive.log_listing": ("LogPage",),
    "esper_agents.api.browsing": ("CertificatePresentation",),
    "esper_agents.agents.agent_packs": (
        "Pack",
        "Packs",
    ),
    "esper_agents.agents.commands": (
        "Command",
        "Commands",
    ),
    "esper_agents.agents.plugin_store": (
        "Installed",
        "add_plugin",
        "installed_plugins",
        "remove_plugin",
    ),
    "esper_agents.agents.plugins": ("Plugin",),
    "esper_agents.agents.registry": ("Registry",),
    "esper_agents.agents.skill_library": ("SkillLibrary",),
    "esper_agents.api.agents": (
        "AgentCatalog",
        "AgentDetails",
        "LintResult",
        "MissingTool",
        "commands_of",
        "load_agents",
        "missing_tools",
        "paths_among",
        "task_of",
    ),
    "esper_agents.api.checkouts": (
        "Checkout",
        "find_checkout",
        "find_checkouts",
        "join_checkout",
    ),
    "esper_agents.api.cluster.split_work": (
        "review_on_ray",
        "verify_archive_on_ray",
    ),
    "esper_agents.api.cluster.status": (
        "ClusterNode",
        "ClusterStatus",
        "cluster_status",
    ),
    "esper_agents.api.cluster.worker_group": (
        "WorkerGroup",
        "WorkerGroupSettings",
        "open_worker_group",
    ),
    "esper_agents.api.code_hosts": (
        "CodeHost",
        "COMMENT_MARKER",
        "PostedComment",
        "PullRequest",
        "post_comment",
        "pull_request_of",
    ),
    "esper_agents.api.pull_requests": (
        "FilePatch",
        "PullRequestReview",
        "review_pull_request",
    ),
    "esper_agents.api.plugin_builder": (
        "BuiltPlugin",
        "build_plugin",
    ),
    "esper_agents.api.archives": (
        "export_archive",
        "import_archive",
    ),
    "esper_agents.api.certificates": ("PublishedPaths",),
    "esper_agents.api.completion": (
        "agent_names",
        "recent_ids",
        "rule_codes",
    ),
    "esper_agents.api.database": (
        "DatabaseBackup",
        "back_up_database",
        "database_grants",
        "database_status",
        "upgrade_database",
        "vacuum_database",
    ),
    "esper_agents.api.document_audit": (
        "audit_documents",
        "audit_problem_meanings",
    ),
    "esper_agents.api.evaluation": (
        "chosen_tasks",
        "load_suite",
        "prompts_digest",
        "read_run",
        "run_suite",
        "run_text",
        "suite_names",
    ),
    "esper_agents.api.extension_skeletons": (
        "ExtensionKind",
        "ExtensionSkeleton",
        "new_extension",
    ),
    "esper_agents.api.filters": (
        "read_filter",
        "read_session_filter",
    ),
    "esper_agents.api.health_checks": (
        "DatabaseContents",
        "HealthProblem",
        "HealthReport",
        "check_health",
    ),
    "esper_agents.api.inspection": (
        "QueryDescription",
        "inspect_code",
        "list_queries",
    ),
    "esper_agents.api.keys": (
        "AcceptedKeys",
        "EnrolledKeys",
        "KeyListing",
        "KeyTrust",
        "PublicKey",
        "PublishedKey",
        "RevokedKey",
        "RotatedKeys",
        "TrustedKeyList",
        "accept_project_keys",
        "enroll_keys",
        "export_key",
        "find_published_key",
        "list_keys",
        "revoke_key",
        "rotate_key",
        "trust_key",
        "trust_keys",
    ),
    "esper_agents.api.measure": (
        "StoredReport",
        "recheck_report",
    ),
    "esper_agents.api.measurement_lab": (
        "MeasurementInputs",
        "MeasurementLab",
        "open_measurement_lab",
        "report_folder",
        "with_captured_inputs",
    ),
    "esper_agents.api.memory": ("RedactionResult",),
    "esper_agents.api.models": ("ModelCostPreview",),
    "esper_agents.api.project": (
        "OpenProject",
        "open_project",
    ),
    "esper_agents.api.project_setup": (
        "SetupPart",
        "SetupState",
        "SetupStep",
        "plan_setup",
        "set_up",
    ),
    "esper_agents.api.review": (
        "LineReview",
        "ReviewOptions",
        "fix_files",
        "fixes_as_patch",
        "review_as_sarif",
        "review_files",
        "review_line",
        "write_baseline",
    ),
    "esper_agents.api.rules": (
        "RuleDescription",
        "lint_rules",
        "rule_page",
    ),
    "esper_agents.api.session": (
        "Session",
        "SessionResult",
    ),
    "esper_agents.api.stack_traces": (
        "ExplainedCommand",
        "TraceService",
        "explain_command",
        "explain_trace",
        "is_error_text",
        "read_trace_file",
    ),
    "esper_agents.api.sync": (
        "SyncProject",
        "SyncSession",
        "open_project_sync",
    ),
    "esper_agents.api.target_project": (
        "TargetProject",
        "current_project",
        "find_target_project",
    ),
    "esper_agents.api.tasks": ("TaskPlan",),
    "esper_agents.api.traces": (
        "SessionTrace",
        "collector_url",
    ),
    "esper_agents.api.verification": (
        "check_coverage",
        "read_trusted_keys",
        "verify_archive",
        "verify_certificate",
    ),
    "esper_agents.api.witness_client": ("request_cosignature",),
    "esper_agents.api.witnesses": (
        "CosignedFile",
        "WitnessRun",
        "cosign_published",
        "cosign_request",
        "demanded_witnesses",
        "publish_log",
    ),
    "esper_agents.api.worker": (
        "QueueWorker",
        "open_worker",
    ),
    "esper_agents.api.worker_events": ("WorkerEvent",),
    "esper_agents.archive.certificate_diff": ("CertificateDiff",),
    "esper_agents.archive.export": ("ExportResult",),
    "esper_agents.archive.import_certificates": (
        "ImportCount",
        "ImportedCertificate",
    ),
    "esper_agents.archive.metrics": (
        "amount_text",
        "spark_line",
    ),
    "esper_agents.archive.pruned_pages": ("PrunablePages",),
    "esper_agents.archive.published.combined": (
        "PublishedStatus",
        "UntrustedKey",
    ),
    "esper_agents.archive.published.scan": ("RefusedFile",),
    "esper_agents.archive.repair": ("RepairResult",),
    "esper_agents.archive.retention": ("Prunable",),
    "esper_agents.archive.search.filters": ("Filter",),
    "esper_agents.archive.search.search": ("SearchHit",),
    "esper_agents.archive.store": (
        "CertificateOrigin",
        "CertificateSummary",
    ),
    "esper_agents.archive.transfer.archive_file": ("ArchiveCounts",),
    "esper_agents.archive.trends": (
        "MetricSummary",
        "Point",
    ),
    "esper_agents.archive.verification.coverage": (
        "CoverageState",
        "FileCoverage",
    ),
    "esper_agents.archive.verification.files": (
        "SubjectCheck",
        "SubjectState",
    ),
    "esper_agents.archive.verification.gate": ("GateResult",),
    "esper_agents.archive.verification.supersession": (
        "Override",
        "SupersedingEntry",
    ),
    "esper_agents.archive.verification.verify": (
        "FreshnessState",
        "RepositoryState",
        "VerificationResult",
    ),
    "esper_agents.archive.verification.verify_all": (
        "ArchiveVerification",
        "NamedVerification",
    ),
    "esper_agents.certificates.audit.auditing": (
        "AuditedDocument",
        "DocumentAudit",
    ),
    "esper_agents.certificates.check": (
        "Check",
        "CheckOutcome",
        "combine_outcomes",
    ),
    "esper_agents.certificates.redaction": (
        "redacted",
        "secrets_of",
    ),
    "esper_agents.certificates.signing.allowed_signers": (
        "RefusedLine",
        "Signer",
    ),
    "esper_agents.certificates.signing.signing_key": ("take_key_file",),
    "esper_agents.certificates.suggested_command": (
        "ParsedCommand",
        "parse_command",
        "seen_from",
    ),
    "esper_agents.certificates.views.explanation": ("VerdictExplanation",),
    "esper_agents.domain.agent_action": (
        "Ask",
        "CallTools",
        "Conclude",
        "Consult",
        "HandOff",
        "Panel",
        "ToolCall",
    ),
    "esper_agents.domain.answer_type": ("AnswerType",),
    "esper_agents.domain.budget": ("read_budget",),
    "esper_agents.domain.evidence": (
        "Risk",
        "source_file",
    ),
    "esper_agents.domain.finding": (
        "Category",
        "Confidence",
        "Diagnostic",
        "Location",
        "Severity",
    ),
    "esper_agents.domain.frame": ("Brief",),
    "esper_agents.domain.gate_level": ("GateLevel",),
    "esper_agents.domain.stack_trace": (
        "StackTrace",
        "TraceFrame",
    ),
    "esper_agents.errors": (
        "EsperError",
        "EvidenceError",
        "UsageError",
    ),
    "esper_agents.learning.model_wording": ("Wording",),
    "esper_agents.learning.proposals": ("Proposal",),
    "esper_agents.learning.report": ("Retrospect",),
    "esper_agents.memory.import_export": ("ImportResult",),
    "esper_agents.orchestration.answers": ("PendingQuestion",),
    "esper_agents.orchestration.drift": ("ChangedError",),
    "esper_agents.orchestration.replay": ("ReplayResult",),
    "esper_agents.review.annotations": ("as_annotations",),
    "esper_agents.review.baseline": ("BaselineEntry",),
    "esper_agents.review.fact_query": (
        "Assessment",
        "Fact",
        "InspectionSubject",
    ),
    "esper_agents.review.inspection": (
        "ClaimState",
        "Inspection",
        "QueryResult",
    ),
    "esper_agents.review.outcome": (
        "ReviewOutcome",
        "UnfixedDiagnostic",
    ),
    "esper_agents.review.report": (
        "Progress",
        "ReviewReport",
        "SuppressedDiagnostic",
    ),
    "esper_agents.review.rule": (
        "FileRule",
        "Rule",
        "RuleMatch",
    ),
    "esper_agents.review.source": ("Unreadable",),
    "esper_agents.review.tables": ("FileTables",),
    "esper_agents.storage.maintenance": ("DatabaseStatus",),
    "esper_agents.storage.model_usage": ("ModelUsage",),
    "esper_agents.tools.tool": (
        "Tool",
        "ToolContext",
        "ToolResult",
        "tool",
    ),
    "esper_agents.torchlab.capture": ("CapturedTarget",),
    "esper_agents.torchlab.compare.change_control": (
        "ChangeControl",
        "base_revision",
    ),
    "esper_agents.torchlab.compare.compare": (
        "ComparisonMode",
        "ComparisonRequest",
    ),
    "esper_agents.torchlab.compare.correctness": ("OutputMetric",),
    "esper_agents.torchlab.compare.measure": ("Arm",),
    "esper_agents.torchlab.compare.result": ("ComparisonOutcome",),
    "esper_agents.torchlab.effort": ("Effort",),
    "esper_agents.torchlab.lab": ("LabSettings",),
    "esper_agents.torchlab.measurement": (
        "MeasurementDescriptor",
        "MeasurementOption",
        "PreparedOptions",
        "ReportSection",
        "measurements",
    ),
    "esper_agents.torchlab.measurements.data": (
        "DataOptions",
        "DataResult",
    ),
    "esper_agents.torchlab.measurements.scaffold": ("ScaffoldOptions",),
    "esper_agents.torchlab.measurements.test": ("DraftOptions",),
    "esper_agents.torchlab.measurements.watch": ("LineRange",),
    "esper_agents.torchlab.report": ("MeasurementReport",),
    "esper_agents.torchlab.target": ("TargetSpec",),
    "esper_agents.torchlab.warm_parent": ("seconds_to_stay",),
    "esper_agents.torchlab.worker_failure": ("WorkerError",),
    "esper_agents.traces.explain": ("TraceExplanation",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
_renamed = aliases(__name__, {"Outcome": "SessionResult", "Plan": "TaskPlan", "UseTools": "CallTools"})

__all__ = [
    "COMMENT_MARKER",
    "AcceptedKeys",
    "AgentCatalog",
    "AgentDetails",
    "AnswerType",
    "ArchiveCounts",
    "ArchiveVerification",
    "Arm",
    "Ask",
    "Assessment",
    "AuditedDocument",
    "BaselineEntry",
    "Brief",
    "BuiltPlugin",
    "CallTools",
    "CapturedTarget",
    "Category",
    "CertificateDiff",
    "CertificateOrigin",
    "CertificatePresentation",
    "CertificateSummary",
    "CertifiedSource",
    "ChangeControl",
    "ChangedError",
    "Check",
    "CheckOutcome",
    "Checkout",
    "ClaimState",
    "ClusterNode",
    "ClusterStatus",
    "CodeHost",
    "Command",
    "Commands",
    "ComparisonMode",
    "ComparisonOutcome",
    "ComparisonRequest",
    "Conclude",
    "Confidence",
    "Consult",
    "CosignedFile",
    "CoverageState",
    "DataOptions",
    "DataResult",
    "DatabaseBackup",
    "DatabaseContents",
    "DatabaseStatus",
    "Diagnostic",
    "DocumentAudit",
    "DraftOptions",
    "Effort",
    "EnrolledKeys",
    "EscapedText",
    "EsperError",
    "EvidenceError",
    "ExplainedCommand",
    "ExportResult",
    "ExtensionKind",
    "ExtensionSkeleton",
    "Fact",
    "FileCoverage",
    "FilePatch",
    "FileRule",
    "FileTables",
    "Filter",
    "FindingHistory",
    "FreshnessState",
    "GateLevel",
    "GateResult",
    "HandOff",
    "HealthProblem",
    "HealthReport",
    "ImportCount",
    "ImportResult",
    "ImportedCertificate",
    "Inspection",
    "InspectionSubject",
    "Installed",
    "KeyListing",
    "KeyTrust",
    "LabSettings",
    "LineRange",
    "LineReview",
    "LintResult",
    "Location",
    "LogPage",
    "MeasurementDescriptor",
    "MeasurementInputs",
    "MeasurementLab",
    "MeasurementOption",
    "MeasurementReport",
    "MetricSummary",
    "MissingTool",
    "ModelCostPreview",
    "ModelUsage",
    "NamedVerification",
    "OpenProject",
    "OutputMetric",
    "Override",
    "Pack",
    "Packs",
    "Panel",
    "ParsedCommand",
    "PendingQuestion",
    "Plugin",
    "Point",
    "PostedComment",
    "PreparedOptions",
    "Progress",
    "Proposal",
    "Prunable",
    "PrunablePages",
    "PublicKey",
    "PublishedKey",
    "PublishedPaths",
    "PublishedStatus",
    "PullRequest",
    "PullRequestReview",
    "QueryDescription",
    "QueryResult",
    "QueueWorker",
    "RedactionResult",
    "RefusedFile",
    "RefusedLine",
    "Registry",
    "RepairResult",
    "ReplayResult",
    "ReportSection",
    "RepositoryState",
    "Retrospect",
    "ReviewOptions",
    "ReviewOutcome",
    "ReviewReport",
    "RevokedKey",
    "Risk",
    "RotatedKeys",
    "Rule",
    "RuleDescription",
    "RuleMatch",
    "ScaffoldOptions",
    "SearchHit",
    "Session",
    "SessionResult",
    "SessionTrace",
    "SetupPart",
    "SetupState",
    "SetupStep",
    "Severity",
    "Signer",
    "SkillLibrary",
    "StackTrace",
    "StoredReport",
    "SubjectCheck",
    "SubjectState",
    "SupersedingEntry",
    "SuppressedDiagnostic",
    "SyncProject",
    "SyncSession",
    "TargetProject",
    "TargetSpec",
    "TaskPlan",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolResult",
    "TraceExplanation",
    "TraceFrame",
    "TraceService",
    "TrustedKeyList",
    "UnfixedDiagnostic",
    "Unreadable",
    "UntrustedKey",
    "UsageError",
    "ValueCount",
    "ValueCounts",
    "VerdictExplanation",
    "VerificationResult",
    "WitnessRun",
    "Wording",
    "WorkerError",
    "WorkerEvent",
    "WorkerGroup",
    "WorkerGroupSettings",
    "accept_project_keys",
    "add_plugin",
    "agent_names",
    "amount_text",
    "as_annotations",
    "audit_documents",
    "audit_problem_meanings",
    "back_up_database",
    "base_revision",
    "build_plugin",
    "check_coverage",
    "check_health",
    "chosen_tasks",
    "cluster_status",
    "collector_url",
    "combine_outcomes",
    "commands_of",
    "cosign_published",
    "cosign_request",
    "current_activity",
    "current_project",
    "database_grants",
    "database_status",
    "demanded_witnesses",
    "enroll_keys",
    "event_lines",
    "explain_command",
    "explain_trace",
    "export_archive",
    "export_key",
    "find_checkout",
    "find_checkouts",
    "find_published_key",
    "find_target_project",
    "fix_files",
    "fixes_as_patch",
    "html_environment",
    "import_archive",
    "inspect_code",
    "installed_plugins",
    "is_error_text",
    "join_checkout",
    "lint_rules",
    "list_keys",
    "list_queries",
    "load_agents",
    "load_suite",
    "measurements",
    "missing_tools",
    "new_extension",
    "open_measurement_lab",
    "open_project",
    "open_project_sync",
    "open_worker",
    "open_worker_group",
    "parse_command",
    "paths_among",
    "plan_setup",
    "post_comment",
    "prompts_digest",
    "publish_log",
    "pull_request_of",
    "read_budget",
    "read_filter",
    "read_run",
    "read_session_filter",
    "read_trace_file",
    "read_trusted_keys",
    "recent_ids",
    "recheck_report",
    "redacted",
    "remove_plugin",
    "report_folder",
    "request_cosignature",
    "review_as_sarif",
    "review_files",
    "review_line",
    "review_on_ray",
    "review_pull_request",
    "revoke_key",
    "rotate_key",
    "route_line",
    "rule_codes",
    "rule_page",
    "run_suite",
    "run_text",
    "seconds_to_stay",
    "secrets_of",
    "seen_from",
    "session_timeline",
    "set_up",
    "source_file",
    "spark_line",
    "suite_names",
    "take_key_file",
    "task_of",
    "tool",
    "trust_key",
    "trust_keys",
    "upgrade_database",
    "vacuum_database",
    "verify_archive",
    "verify_archive_on_ray",
    "verify_certificate",
    "with_captured_inputs",
    "write_baseline",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        return _renamed(name)
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
