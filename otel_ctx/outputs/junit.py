"""Verdicts as JUnit XML, which CI systems show as tests: a test case for each gate."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from otel_ctx.outputs.escape import escape
from otel_ctx.outputs.views.gates import Verdict

_SUITE = "otelctx check"


def render(found: Sequence[Verdict], strict: bool) -> bytes:
    """``strict``: what was not checked is a failure; else it is skipped."""
    failed = sum(v.result == "fail" or (strict and v.result == "not_checked") for v in found)
    skipped = sum(not strict and v.result == "not_checked" for v in found)
    counts = {"tests": str(len(found)), "failures": str(failed), "errors": "0"}
    root = ElementTree.Element("testsuites", {"name": _SUITE, **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _SUITE, **counts, "skipped": str(skipped)})
    for v in found:
        name = v.gate.replace("_", "-") + ("" if v.bound is None else f" {v.bound:g}")
        case = ElementTree.SubElement(suite, "testcase", {"classname": "otelctx.check", "name": name})
        told = escape(v.told)  # nothing is left in it that XML does not allow
        if v.result == "pass":
            ElementTree.SubElement(case, "system-out").text = told
        elif v.result == "not_checked" and not strict:
            ElementTree.SubElement(case, "skipped", {"message": told})
        else:
            about = {"message": told, "type": "fail" if v.result == "fail" else "not checked"}
            calls = ["calls:", *map(escape, v.calls)] if v.calls else []
            ElementTree.SubElement(case, "failure", about).text = "\n".join([told, *calls])
    ElementTree.indent(root)
    return ElementTree.tostring(root, "utf-8", xml_declaration=True) + b"\n"
