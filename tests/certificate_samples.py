"""Real certificates to test with: one of every kind and status, and one with everything in it."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha1, sha256

from esper_agents.certificates.policy.question_type import kinds_text
from esper_agents.certificates.policy.verdict_ceiling import apply_ceiling, ceiling, load_policy
from esper_agents.certificates.statement import digest_of_value as digest
from esper_agents.domain.agent_action import RiskAssessment, RiskRow
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.certificate import Certificate, Definition, ModelTurn, SkillUse
from esper_agents.domain.evidence import Artifact, CallOutcome, Evidence, Risk, SourceFile
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Finding, Location, Severity, fingerprint
from esper_agents.domain.handoff import ConsultAnswer, Handoff, OpenPart
from esper_agents.domain.project import GitRevision
from esper_agents.domain.relation import Relation, RelationKind
from esper_agents.domain.route import Route, RouteCandidate, RouteOutcome
from esper_agents.domain.status import QuestionType, Stance, Status
from esper_agents.domain.task import Task

TRAIN = """\
import torch

def train(model, loader, optimizer):
    losses = []
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return losses
"""


def source(path: str = "examples/train.py", text: str = TRAIN) -> SourceFile:
    data = text.encode()
    blob = sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return SourceFile(path, sha256(data).hexdigest(), blob, len(text.splitlines()), len(data))


def evidence(number: int = 1, **changes: object) -> Evidence:
    arguments = changes.get("arguments", {"paths": ["examples/train.py"]})
    output = changes.get("output", {"findings": 1, "lines": 10, "seconds": 0.25})
    made = Evidence(
        id=f"ev_{number:032x}",
        tool="static-review",
        provider="esper-agents 0.1.0",
        risk=Risk.LOW,
        is_repeatable=True,
        arguments=arguments,
        arguments_sha256=digest(arguments),
        outcome=CallOutcome.COMPLETED,
        summary="read 10 lines of 1 file, 1 finding",
        output=output,
        output_sha256=digest(output),
        examined=(source(),),
        artifacts=(),
        started_at="2026-01-31T09:29:58.100Z",
        duration_ns=12_345_678,
        rerun="esper review examples/train.py",
    )
    return replace(made, **changes)


def measurement(number: int = 2, **changes: object) -> Evidence:
    made = evidence(
        number,
        tool="torch-compare",
        arguments={"baseline": "examples/train.py:old", "candidate": "examples/train.py:new"},
        summary="speedup 1.31 (1.27 to 1.35) over 9 replicates",
        output={"outcome": "faster as claimed", "speedup": 1.31, "low": 1.27, "high": 1.35, "replicates": 9},
        artifacts=(Artifact("samples.json", "ab" * 32, 4096, "application/json"),),
        rerun="esper compare examples/train.py:old examples/train.py:new",
    )
    return replace(made, **changes)


def ran_tests(number: int = 8, **changes: object) -> Evidence:
    made = evidence(
        number,
        tool="run-tests",
        summary="tests: 12 passed in 3.10s",
        output={
            "outcome": "passed",
            "counts": {"passed": 12, "failed": 0, "errors": 0, "skipped": 0},
            "coverage": [{"path": "examples/train.py", "lines": 7, "executed": 6}],
        },
        rerun="python -m pytest -q tests",
    )
    return replace(made, **changes)


def claim(**changes: object) -> Diagnostic:
    line = "        losses.append(loss)"
    made = Diagnostic(
        rule="ESP301",
        name="loss-kept-with-its-graph",
        severity=Severity.WARNING,
        category=Category.MEMORY,
        location=Location("examples/train.py", 9, 9, 9),
        message="every loss in `losses` keeps the graph of its step alive",
        remedy="append `loss.detach()`",
        confidence=Confidence.HIGH,
        basis="seen in one function",
        excerpt=line,
        fingerprint=fingerprint("ESP301", "examples/train.py", line, 0),
    )
    return replace(made, **changes)


def finding(number: int = 1, **changes: object) -> Finding:
    made = claim(**({"fingerprint": f"{number:032x}"} | changes))
    return Finding(f"fnd_{number:032x}", made, "pytorch-code-reviewer", (f"ev_{1:032x}",))


def critical(number: int = 1, **changes: object) -> Finding:
    sort = {
        "rule": "ESP101",
        "name": "no-zero-grad",
        "severity": Severity.CRITICAL,
        "category": Category.CORRECTNESS,
        "location": Location("examples/train.py", 7, 9, 7),
        "message": "gradients add up over all steps, because nothing clears them",
        "remedy": "call `optimizer.zero_grad()` before `loss.backward()`",
        "excerpt": "        loss.backward()",
    }
    return finding(number, **(sort | changes))


def certificate(
    kind: QuestionType = QuestionType.APPROVAL,
    *,
    request: str = "review examples/train.py",
    wanted: Stance | None = None,
    reason: str = "",
    rationale: str = "",
    conditions: tuple[str, ...] = (),
    **changes: object,
) -> Certificate:
    """Return a certificate whose verdict is what the policy makes of its facts."""
    bare = Certificate(
        id="crt_0198f0a1b2c37d4e8f00112233445566",
        issued_at="2026-01-31T09:30:00.123Z",
        session="ses_0198f0a1b2c37d4e8f00112233440000",
        project="demo",
        agent="pytorch-code-reviewer",
        descriptor="code_review",
        component="examples_train",
        task=Task(request, ("examples/train.py",), kind, "review"),
        route=Route(
            RouteOutcome.ASSIGNED,
            "pytorch-code-reviewer",
            (RouteCandidate("pytorch-code-reviewer", 910, ("'review'",), ()),),
            "because: 'review'",
        ),
        handoffs=(),
        consults=(),
        definitions=(Definition("pytorch-code-reviewer", "cd" * 32, "playbook", "ef" * 32, "esper-agents 0.1.0"),),
        verdict=None,  # type: ignore[arg-type]
        summary="The loop trains as written.",
        findings=(),
        evidence=(evidence(), ran_tests()),
        examined=(source(),),
        revision=GitRevision("1" * 40, "2" * 40, "main", "https://example.org/demo.git", is_git=True, dirty=()),
        assumptions=(),
        gaps=(),
        caveats=(),
        next_steps=(),
        risks=RiskAssessment("Low", "Easy"),
        environment={"esper-agents": "0.1.0", "python": "3.11.7"},
        question_kinds_sha256=sha256(kinds_text().encode()).hexdigest(),
    )
    facts = replace(bare, **changes)
    top = ceiling(
        load_policy(),
        kind,
        findings=facts.findings,
        evidence=facts.evidence,
        assumptions=facts.assumptions,
        gaps=facts.gaps,
        examined_lines=sum(file.lines for file in facts.examined),
        risks=facts.risks,
        request=facts.task.request,
        agent=facts.agent,
        paths=facts.task.paths,
    )
    verdict = apply_ceiling(
        top,
        kind,
        wanted=wanted,
        reason=reason,
        rationale=rationale,
        conditions=conditions,
        findings=facts.findings,
    )
    return replace(facts, verdict=verdict)


def full() -> Certificate:
    """Return a certificate with something in every section."""
    gap = InformationGap(
        "the size of a batch", "it decides whether the graphs fit", "esper ask size", blocks_approval=False
    )
    return certificate(
        request="review examples/train.py\nand say what it costs",
        rationale="The losses keep their graphs, and nothing clears the gradients.",
        summary="Two faults, both mended in one line each.",
        findings=(
            critical(1),
            finding(2),
            finding(3, severity=Severity.SUGGESTION, rule="ESP401", name="no-workers", message="loads in one process"),
            finding(
                4,
                severity=Severity.SUGGESTION,
                category=Category.COMPILE,
                rule="ESP501",
                name="step-not-compiled",
                message="the step could be compiled",
                confidence=Confidence.LOW,
                basis="convention",
            ),
        ),
        evidence=(
            evidence(),
            measurement(),
            evidence(3, tool="run-tests", outcome=CallOutcome.FAILED, summary="no tests found", examined=()),
        ),
        handoffs=(
            Handoff(
                sender="pytorch-expert",
                receiver="pytorch-code-reviewer",
                domain="training loop",
                reason="it reviews loops",
                context="the loss is kept",
                findings=(f"{2:032x}",),
                evidence=(f"ev_{1:032x}",),
                open_parts=(OpenPart("pytorch-code-reviewer", "loop", "is it right?", (f"{2:032x}",)),),
                do_not_repeat=("static-review",),
                gaps=(),
                hop=1,
            ),
        ),
        consults=(ConsultAnswer("memory-diagnostician", "It grows by one graph a step.", (f"{2:032x}",), ()),),
        revision=GitRevision("1" * 40, "2" * 40, "main", "", is_git=True, dirty=("examples/train.py",)),
        assumptions=(
            Assumption("the loader shuffles", Tier.PLAN, False, AssumptionState.CONFIRMED, (f"ev_{1:032x}",), ""),
            Assumption("one GPU", Tier.WORK, False, AssumptionState.OPEN, (), "nvidia-smi"),
            Assumption("mixed precision", Tier.WORK, False, AssumptionState.REFUTED, (f"ev_{1:032x}",), ""),
        ),
        gaps=(gap,),
        caveats=("Only one epoch was looked at.",),
        next_steps=("Run the tests.",),
        risks=RiskAssessment("Medium", "Moderate", (RiskRow("slower steps", "Low", "Medium", "measure a step"),)),
        definitions=(
            Definition("pytorch-expert", "ce" * 32, "playbook", "ef" * 32, "esper-agents 0.1.0"),
            Definition(
                "pytorch-code-reviewer",
                "cd" * 32,
                "claude",
                "",
                "anthropic 1.0.0",
                skills=(SkillUse("training-loops", "aa" * 32),),
                exchanges=(ModelTurn("claude-opus-5", "bb" * 32, "cc" * 32),),
            ),
        ),
        relations=(Relation(RelationKind.SUPERSEDES, f"crt_{7:032x}", "dd" * 32),),
        redactions=2,
    )


def of_status(status: Status) -> Certificate:  # noqa: C901, PLR0911 - one for each status
    """Return a certificate that reaches a status by what is on record in it."""
    match status:
        case Status.APPROVED:
            return certificate()
        case Status.CONDITIONALLY_APPROVED:
            return certificate(findings=(finding(),))
        case Status.REQUIRES_REMEDIATION:
            return certificate(findings=(critical(),))
        case Status.REJECTED:
            return certificate(findings=tuple(critical(number) for number in range(1, 6)))
        case Status.NEEDS_FURTHER_REVIEW:
            return certificate(evidence=(), examined=(), summary="", revision=GitRevision("", "", "", "", False, ()))
        case Status.GO:
            return certificate(QuestionType.GO, request="may this ship?")
        case Status.NO_GO:
            return certificate(QuestionType.GO, request="may this ship?", findings=(critical(),))
        case Status.RECOMMEND:
            return certificate(
                QuestionType.RECOMMENDATION,
                request="is the new one faster?",
                evidence=(evidence(), measurement()),
                agent="pytorch-ultimate-performance-engineer",
            )
        case Status.DO_NOT_RECOMMEND:
            return certificate(
                QuestionType.RECOMMENDATION,
                request="is the new one faster?",
                evidence=(evidence(), measurement()),
                wanted=Stance.AGAINST,
                reason="the interval starts below the threshold",
                agent="pytorch-ultimate-performance-engineer",
            )
        case Status.ADVISORY_ONLY:
            return certificate(QuestionType.ADVICE, request="why does memory grow?", findings=(finding(), critical(2)))
        case Status.EMERGENCY_STOP:
            return certificate(findings=(critical(),), risks=RiskAssessment("High", "Irreversible"))


def every_text(made: Certificate, text: str) -> Certificate:
    """Return a certificate with a text wherever outside text can stand; file names get it as an ending."""
    path = f"src/{text}"
    mark = evidence(
        9, tool=text, summary=text, rerun=text, provider=text, arguments={text: text}, output={"said": text}
    )
    mark = replace(mark, id=text, output_sha256=text, artifacts=(Artifact(text, text, 1, text),))
    file = replace(source(), path=path)
    return replace(
        made,
        project=text,
        agent=text,
        descriptor=text,
        component=text,
        summary=text,
        task=replace(made.task, request=text, paths=(path,), kind_because=text),
        route=replace(made.route, agent=text, explanation=text),
        definitions=tuple(
            replace(
                definition,
                agent=text,
                reasoner=text,
                provider=text,
                sha256=text,
                skills=(SkillUse(text, text),),
                exchanges=(ModelTurn(text, text, text),),
            )
            for definition in made.definitions
        ),
        verdict=replace(
            made.verdict,
            rationale=text,
            conditions=(text,),
            below_ceiling=text,
            ceiling=replace(
                made.verdict.ceiling,
                lines=tuple(replace(line, because=text, name=text) for line in made.verdict.ceiling.lines),
                policy_sha256=text,
            ),
        ),
        findings=tuple(
            replace(
                each,
                agent=text,
                evidence=(text,),
                claim=replace(
                    each.claim,
                    rule=text,
                    name=text,
                    message=text,
                    remedy=text,
                    basis=text,
                    excerpt=text,
                    location=Location(path, 4),
                ),
            )
            for each in made.findings
        ),
        evidence=(*made.evidence, mark),
        examined=(file, *made.examined),
        revision=replace(made.revision, commit=text, branch=text, remote=text, dirty=(path,)),
        handoffs=tuple(
            replace(handoff, sender=text, receiver=text, domain=text, reason=text, context=text)
            for handoff in made.handoffs
        ),
        consults=tuple(replace(consult, agent=text, answer=text) for consult in made.consults),
        assumptions=tuple(replace(assumption, text=text, command=text) for assumption in made.assumptions),
        gaps=tuple(replace(gap, what=text, why=text, command=text) for gap in made.gaps),
        caveats=(text,),
        next_steps=(text,),
        risks=replace(made.risks, rows=(RiskRow(text, "Low", "Low", text),)),
        environment={text: text},
        relations=(Relation(RelationKind.DEPENDS_ON, text, text),),
    )
