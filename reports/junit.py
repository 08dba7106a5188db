"""A test case per gate, for machines that read JUnit XML."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET

from ..gates.result import GateResult, Verdict
from .explain import explain, gate_line

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean(text: str) -> str:
    """Text without the characters that XML 1.0 cannot hold."""
    return _NOT_XML.sub("�", text)


def render_junit(verdict: Verdict) -> str:
    """fail → failure; invalid, and a required gate left open → error; not-applicable and optional gaps → skipped.

    A last case named `verdict` fails unless the verdict is GO, so that no green suite passes for a GO.
    """
    suite = ET.Element("testsuite", name=f"draftgate {verdict.plan_id[:12]}")
    properties = ET.SubElement(suite, "properties")
    facts = {"verdict": verdict.verdict, "plan_id": verdict.plan_id, "exploratory": str(verdict.exploratory).lower()}
    for key, value in facts.items():
        ET.SubElement(properties, "property", name=key, value=clean(value))
    for gate in verdict.gates:
        _case(suite, gate)
    last = ET.SubElement(suite, "testcase", classname="draftgate", name="verdict", time="0")
    if verdict.verdict != "GO":
        tag = "failure" if verdict.verdict == "NO-GO" else "error"
        ET.SubElement(last, tag, message=verdict.verdict, type=verdict.verdict).text = clean("\n".join(verdict.reasons))
    cases = suite.findall("testcase")
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("tests", str(len(cases)))
    suite.set("time", "0")
    root = ET.Element("testsuites", {k: suite.get(k, "0") for k in ("tests", "failures", "errors", "skipped", "time")})
    root.append(suite)
    ET.indent(root)
    text = io.BytesIO()
    ET.ElementTree(root).write(text, encoding="utf-8", xml_declaration=True)
    return text.getvalue().decode() + "\n"


def _case(suite: ET.Element, gate: GateResult) -> None:
    told = explain(gate)
    case = ET.SubElement(suite, "testcase", classname="draftgate.gates", name=clean(gate.id), time="0")
    tag = outcome(gate)
    body = clean("\n".join(part for part in (told.found, gate_line(told), told.why, told.failing) if part))
    if tag:
        ET.SubElement(case, tag, message=clean(gate.reason), type=gate.status).text = body
    else:
        ET.SubElement(case, "system-out").text = body


def outcome(gate: GateResult) -> str:
    """The JUnit element of a gate; empty for a pass."""
    if gate.requirement == "not-applicable":
        return "skipped"
    if gate.status == "pass":
        return ""
    if gate.status == "fail":
        return "failure"
    if gate.status == "invalid":
        return "error"
    return "error" if gate.requirement == "required" and gate.status != "not-applicable" else "skipped"
