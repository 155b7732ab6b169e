"""Verdicts as JUnit XML, which CI systems show as tests: a test case for each gate."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from otel_ctx.outputs.escape import escape
from otel_ctx.outputs.views.gates import Verdict

_SUITE = "otelctx check"


def render(found: Sequence[Verdict], strict: bool) -> bytes:
    """``strict``: what was not checked is a failure; else it is skipped."""
    failed = sum(v.result == "fail" or (strict and v.result == "not_checked") for v in found)
    skipped = sum(not strict and v.result == "not_checked" for v in found)
    counts = {"tests": str(len(found)), "failures": str(failed), "errors": "0"}
    root = ET.Element("testsuites", {"name": _SUITE, **counts})
    suite = ET.SubElement(root, "testsuite", {"name": _SUITE, **counts, "skipped": str(skipped)})
    for v in found:
        name = v.gate.replace("_", "-") + ("" if v.bound is None else f" {v.bound:g}")
        case = ET.SubElement(suite, "testcase", {"classname": "otelctx.check", "name": name})
        words = escape(v.told)  # nothing is left in it that XML does not allow
        if v.result == "pass":
            ET.SubElement(case, "system-out").text = words
        elif v.result == "not_checked" and not strict:
            ET.SubElement(case, "skipped", {"message": words})
        else:
            about = {"message": words, "type": "fail" if v.result == "fail" else "not checked"}
            calls = ["calls:", *map(escape, v.calls)] if v.calls else []
            ET.SubElement(case, "failure", about).text = "\n".join([words, *calls])
    ET.indent(root)
    told: bytes = ET.tostring(root, "utf-8", xml_declaration=True)
    return told + b"\n"
