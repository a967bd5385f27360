"""Reading of untrusted TOML, the format of systems and recipes, and writing of TOML."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping
from typing import Any

from vpintegrator.errors import InputError, nearest

MAXIMUM_SIZE = 500_000  # characters of a TOML file
_DOTS = 16
_STRINGS = re.compile(
    r'"""[\s\S]*?"""' + r"|'''[\s\S]*?'''" + r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'|#[^\n]*"
)
_BESIDE_DOTS = re.compile(r"[\w \t-]+")
_LONG_KEY = re.compile(rf"\.{{{_DOTS + 1}}}")


def read_toml(text: str, source: str) -> dict[str, Any]:
    """Read TOML, or raise InputError with the line and column of the mistake."""
    if not isinstance(text, str):
        raise InputError(f"{source}: expected TOML text, found {type(text).__name__}")
    if len(text) > MAXIMUM_SIZE:
        raise InputError(
            f"{source} has {len(text)} characters, more than the {MAXIMUM_SIZE} of a description"
        )
    # Python's reader takes the square of a dotted key's length, in time and in memory
    if _LONG_KEY.search(_BESIDE_DOTS.sub("", _STRINGS.sub("", text))):
        raise InputError(f"{source} is not valid TOML: a key has more than {_DOTS} dots")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not valid TOML: {error}") from None


def check_keys(table: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raise InputError for a key of ``table`` that is not known, with the nearest, or with all."""
    for key in table:
        if key not in known:
            hint = nearest(key, known) or f"; there are {', '.join(sorted(known))}"
            raise InputError(f"{where}: unknown key '{key}'{hint}")


def toml_text(values: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return values and then nonempty tables as TOML."""
    lines = [f"{_key(key)} = {_written(value)}" for key, value in values.items()]
    for name, table in tables.items():
        if table:
            lines += ["", f"[{name}]"]
            lines += [f"{_key(key)} = {_written(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _written(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, Mapping):
        entries = (f"{_key(key)} = {_written(entry)}" for key, entry in value.items())
        return f"{{ {', '.join(entries)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    if not isinstance(value, str):
        return json.dumps(value)  # TOML writes numbers as JSON does
    lines = value.split("\n")
    if len(lines) > 1 and "'''" not in value and all(map(str.isprintable, lines)):
        return f"'''\n{value}'''"
    return _quoted(value)


def _key(name: str) -> str:
    """Return a key as TOML, quoted if a dot in it would make tables."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
