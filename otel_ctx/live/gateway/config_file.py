"""The gateway's file: YAML -> its keys, each with the line on which it stands."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from otel_ctx.errors import SettingError

_ENV = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


class Given(NamedTuple):
    """A value and where it stands: ``--flag`` or ``FILE, line N``."""

    value: Any
    where: str


def read_file(path: str) -> dict[str, Given]:
    """The keys of a YAML file. SettingError where it is none, with the line."""
    try:
        return _read_file(path)
    except RecursionError:
        raise SettingError(f"{path}: a value of it is nested too deeply, or within itself") from None


def _read_file(path: str) -> dict[str, Given]:
    import yaml

    try:
        text = Path(path).read_text("utf-8")
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: cannot be read ({type(error).__name__})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise SettingError(
            f"{path}{line}: no valid YAML ({getattr(error, 'problem', None) or 'damaged'})"
        ) from None
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise SettingError(f"{path}, line {node.start_mark.line + 1}: must be keys and values")
    given: dict[str, Given] = {}
    for key_node, value_node in node.value:
        where = f"{path}, line {key_node.start_mark.line + 1}"
        if not isinstance(key_node, yaml.ScalarNode):
            raise SettingError(f"{where}: a key must be a word")
        key = key_node.value
        _look_for_doubles(value_node, path)
        if key in given:
            raise SettingError(f"{where}: {key} is there twice")
        try:
            given[key] = Given(
                _from_environment(loader.construct_object(value_node, deep=True), where), where
            )
        except (yaml.YAMLError, ValueError, TypeError):  # a date that is none, for instance
            raise SettingError(f"{where}: {key} is no value of YAML's own kinds") from None
    return given


def _look_for_doubles(node: Any, path: str) -> None:
    import yaml

    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise SettingError(f"{path}, line {key.start_mark.line + 1}: {key.value} is there twice")
                seen.add(key.value)
            _look_for_doubles(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _look_for_doubles(value, path)


def _from_environment(value: Any, where: str) -> Any:
    """``${env:NAME}`` in texts, as a Collector's file has it: secrets need not stand in a file."""

    def found(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise SettingError(f"{where}: the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    if isinstance(value, str):
        return _ENV.sub(found, value)
    if isinstance(value, dict):
        return {key: _from_environment(item, where) for key, item in value.items()}
    if isinstance(value, list):
        return [_from_environment(item, where) for item in value]
    return value
