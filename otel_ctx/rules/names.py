"""Names as spans write them, of models, providers and versions, and how one fits a pattern of the tables."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

# Vendors that Bedrock writes before its model ids, and the regions of its inference profiles. DeepSeek's own ids there
# are "deepseek.v3-v1:0": without the vendor nothing would be left to know it by.
_VENDORS = "anthropic|amazon|meta|mistral|cohere|ai21|openai|qwen|moonshot|moonshotai|minimax|zai|google|nvidia|writer"
_REGIONS = "us|eu|apac|au|jp|in|ca|sa|us-gov|global"
_BEDROCK_VENDOR = re.compile(rf"(?:(?:{_REGIONS})\.)?(?:{_VENDORS})\.(?=[a-z])")
_BEDROCK_ID = re.compile(
    rf"arn:aws[\w-]*:bedrock:|(?:(?:{_REGIONS})\.)?(?:{_VENDORS}|deepseek)\.[a-z]|.*-v\d+:\d+"
)
# Of Bedrock's models and inference profiles: what names the model stands behind it.
_ARN = re.compile(r"arn:[^/]*/")
_CLIENT = re.compile(
    r"(?:ft|openai|openai-chat|openai-responses|anthropic|google|google-gla|google-vertex|bedrock|azure|groq|deepseek|xai"
    r"|grok|openrouter|gateway|vertexai|ollama|together|fireworks|moonshotai|cohere|cerebras):(?=[a-z])"
)
_WRAPPED = re.compile(r"databricks-|system\.ai\.")
_BEDROCK_VERSION = re.compile(r"(?:-v\d+|-\d+):\d+(?::\d+k)?$")
_CLAUDE_VERSION = re.compile(r"-v\d+$")
# One model under several names: "claude-opus-4-0", and the generation on the other side of the model than Anthropic has it.
_CLAUDE_FIRST = re.compile(r"(?<=[a-z]-\d)-0$")
_CLAUDE_TURNED = re.compile(r"^claude-([4-9](?:-\d)?)-([a-z]+)")
_CLAUDE_3_TURNED = re.compile(r"^claude-([a-z]+)-(3(?:-\d)?)(?=-|$)")
_DATE = re.compile(r"-20\d\d(?:-\d\d-\d\d|\d{4})(?=$|-)")
_TAIL = re.compile(r"(?:\[[^\]]*\]|:[a-z][a-z-]*|-latest|-default)$")
_DOT = re.compile(r"(?<=\d)\.(?=\d)")
_OTHER_VERSION = re.compile(r"-\d{1,2}(?![\da-z])")


def _lower(model: str) -> str:
    text = model.strip().strip('"').lower()
    return text.replace("%3a", ":").replace("%2f", "/").replace("%40", "@") if "%" in text else text


@lru_cache(maxsize=512)
def normalise_model_id(model: str) -> str:
    """The model's own name: no path, vendor, region, client, date, version suffix or "latest"."""
    return _DATE.sub("", _snapshot(model))


def priced_names(model: str) -> tuple[str, ...]:
    """The names that a model's price may stand under, the closest first: that of the snapshot ("gpt-4o-2024-05-13"), then
    the model's. A fine-tuned model is none of its base's: its names begin with "ft:"."""
    last = _lower(model).rsplit("/", 1)[-1]
    tuned = "ft:" if last.startswith("ft:") else ""
    return tuple(dict.fromkeys(tuned + name for name in (_snapshot(model), normalise_model_id(model))))


def _snapshot(model: str) -> str:
    name = _lower(model).rsplit("/", 1)[-1]
    client = _CLIENT.match(name)
    if client:
        name = name[client.end() :]
        if client.group() == "ft:":  # ft:BASE:ORGANISATION::ID
            name = name.split(":", 1)[0]
    bare = _BEDROCK_VENDOR.sub("", _WRAPPED.sub("", name, count=1), count=1)
    bare = _BEDROCK_VERSION.sub("", bare.split("@", 1)[0])
    if bare.startswith("claude"):
        bare = _DOT.sub("-", _CLAUDE_VERSION.sub("", _TAIL.sub("", bare)))
        bare = _CLAUDE_3_TURNED.sub(r"claude-\2-\1", _CLAUDE_TURNED.sub(r"claude-\2-\1", bare))
        bare = _CLAUDE_FIRST.sub("", bare)
    return _TAIL.sub("", bare)


def endpoint_of(model: str) -> Literal["global", "regional", ""]:
    """Where Bedrock or Vertex serves a request that names the model so: anywhere, in one region or geography, or not said.

    >>> endpoint_of("global.anthropic.claude-opus-5"), endpoint_of("eu.anthropic.claude-opus-5")
    ('global', 'regional')
    """
    *path, last = _lower(model).split("/")
    if "locations" in path[:-1]:
        return "global" if path[path.index("locations") + 1] == "global" else "regional"
    vendor = _BEDROCK_VENDOR.match(last)
    if vendor is None:
        return ""
    return "global" if last.startswith("global.") else "regional"


def is_bedrock_id(model: str) -> bool:
    """Whether the id has the shape that only Bedrock gives: an ARN, a vendor with a dot, a version "-v1:0"."""
    return _BEDROCK_ID.match(_lower(model).rsplit("bedrock/", 1)[-1]) is not None


def path_of(model: str) -> tuple[str, ...]:
    """The parts before the name: ("openrouter", "anthropic") of "openrouter/anthropic/claude-opus-5"."""
    text = _ARN.sub("", _lower(model))
    client = _CLIENT.match(text.rsplit("/", 1)[-1])
    parts = tuple(text.split("/")[:-1])
    return (*parts, client.group()[:-1]) if client and client.group() != "ft:" else parts


def fit(pattern: str, name: str) -> int:
    """How closely ``name`` fits: 0 not at all, else the more the longer the pattern.

    A pattern stands for itself and its variants ("gpt-5.6-luna" of "gpt-5.6"), not for another version
    ("claude-opus-4-8" of "claude-opus-4"); a trailing ``*`` takes any rest.
    """
    if pattern.endswith("*"):
        return 2 * len(pattern) - 1 if name.startswith(pattern[:-1]) else 0
    if not name.startswith(pattern):
        return 0
    rest = name[len(pattern) :]
    variant = not rest or (rest[0] in "-:" and not _OTHER_VERSION.match(rest))
    return 2 * len(pattern) + 2 if variant else 0


def version_of(text: str) -> tuple[int, ...]:
    """The numbers at the start of a version: (0, 7) of "0.7b2"; empty where there are none."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", text)
    return tuple(int(n) for n in found[1].split(".")) if found else ()


def spelling(name: str) -> str:
    """A provider's name without the differences that do not count."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")
