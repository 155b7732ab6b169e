"""Records of Amazon Bedrock's model invocation logs: what was sent and answered, and AWS's own numbers beside it.

Source: Amazon Bedrock documentation, "Monitor model invocation using CloudWatch Logs and Amazon S3". It does not say whether
``inputTokenCount`` has the cached tokens in it: it is taken for the ``inputTokens`` of Converse, which has not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from otel_ctx.inputs.exchanges import Plain
from otel_ctx.parts import mapping, structure

PERMISSION_CHECK = "amazon-bedrock-logs-permission-check"
"""An empty object that AWS puts into the bucket when logging is switched on."""

_COUNTS = (
    ("inputTokenCount", "inputTokens"),
    ("cacheReadInputTokenCount", "cacheReadInputTokens"),
    ("cacheWriteInputTokenCount", "cacheWriteInputTokens"),
    ("outputTokenCount", "outputTokens"),
)


def is_invocation(record: Any) -> bool:
    if not isinstance(record, Mapping):
        return False
    bodies = ("inputBodyJson", "inputBodyS3Path")
    given = record.get("input")
    return record.get("schemaType") == "ModelInvocationLog" or (
        isinstance(given, Mapping) and any(name in given for name in bodies)
    )


def plain(record: Mapping[str, Any]) -> Plain | None:
    """``record`` as one of a request; None where it is no invocation."""
    if not is_invocation(record):
        return None
    given, taken = (mapping(structure(record.get(name))) for name in ("input", "output"))
    refused = record.get("errorCode")
    counts = {**given, **taken} if taken or not refused else {}  # what was refused is billed nothing
    usage = {name: n for count, name in _COUNTS if (n := counts.get(count)) is not None}
    body = structure(given.get("inputBodyJson"))
    if isinstance(body, Mapping):  # InvokeModel has the model in its URL
        body = {"model": record.get("modelId"), **body}
    stored = {
        "stored_request": _key(given.get("inputBodyS3Path")),
        "stored_response": _key(taken.get("outputBodyS3Path")),
    }
    return Plain(
        {
            **{name: value for name, value in record.items() if name not in ("input", "output")},
            "provider": "aws.bedrock",
            "request": body,
            "response": taken.get("outputBodyJson"),
            "usage": usage or None,
            "error": {"type": refused, "message": record.get("errorMessage")} if refused else None,
        },
        stored,
        call=bool(usage or refused or any(stored.values())),
        written=(given.get("inputBodyJson"),),
    )


def _key(path: Any) -> str | None:
    """Of an object in a bucket, whose copy has the end of its key as path."""
    return re.sub(r"s3://[^/]*/", "", path, count=1) if isinstance(path, str) and path else None
