"""Shell completion of names from lists and of files of a kind.

An option takes ``shell_complete=offer(...)`` with one source or several. A source lists its names
without a slow import, because the shell asks at every press of the key.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

from vpintegrator.catalogue import DATASETS, SYSTEMS, catalogue
from vpintegrator.cli.known_names import MODEL_OPTIONS
from vpintegrator.errors import InputError, printable
from vpintegrator.storage.toml import read_toml

Offered = Mapping[str, str]  # candidates, each with a short description
Source = Callable[[click.Context, str], Offered]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]

_FILE = "file"  # click's word for: let the shell complete any file
_DEEPEST = 20  # folders that hold one folder and nothing else
_LARGEST = 10_000_000  # bytes of a description, or of the header of a model, that are read
_WORDS = 60  # letters beside a name
_TO_ESCAPE = re.compile(r"""[\s'"\\$`!*?\[\](){};&|<>#]""")


def offer(*sources: Source) -> Completer:
    """Return the ``shell_complete`` of an option or argument for the names of the sources.

    If no source has a name, and one of them is of files, the shell completes any file, because its
    suffix may differ. A file that cannot be read offers no names and raises no error.
    """

    def complete(
        context: click.Context, _: click.Parameter, text: str
    ) -> list[CompletionItem[str]]:
        found: dict[str, str] = {}
        for source in sources:
            try:
                found |= source(context, text)
            except Exception:  # whatever a file holds: the line being typed stays as it is
                continue
        items = [
            CompletionItem(value, help=words or None)
            for value, words in found.items()
            if value.startswith(text)
        ]
        if not items and any(hasattr(source, "suffixes") for source in sources):
            return [CompletionItem(text, type=_FILE)]
        return items

    return complete


def names(*known: str) -> Source:
    """Return a source of fixed names."""
    return lambda _context, _text: dict.fromkeys(known, "")


def described(describe: Callable[[], Offered]) -> Source:
    """Return a source of names with short descriptions, looked up on demand."""
    return lambda _context, _text: describe()


def files(*suffixes: str) -> Source:
    """Return a completer for folders and for files with one of these suffixes."""

    def found(_: click.Context, text: str) -> Offered:
        for _deeper in range(_DEEPEST):
            entries = _entries(text, suffixes)
            if len(entries) != 1 or not entries[0].endswith("/") or entries[0] == text:
                break
            inside = _entries(entries[0], suffixes)
            if not inside:
                break
            text = entries[0]
        return dict.fromkeys(entries, "")

    found.suffixes = suffixes  # type: ignore[attr-defined]
    return found


def folders(_: click.Context, __: click.Parameter, text: str) -> list[CompletionItem[str]]:
    """Return the completion of a folder, which the shell does itself."""
    return [CompletionItem(text, type="dir")]


def _entries(text: str, suffixes: tuple[str, ...]) -> list[str]:
    """Return the folders, and the files with a suffix, that begin with the text; keep a tilde."""
    folder, slash, start = text.rpartition("/")
    with os.scandir(Path(f"{folder}{slash}").expanduser() if slash else ".") as scanned:
        here = sorted(scanned, key=lambda entry: entry.name)
    found = []
    for entry in here:
        hidden = entry.name.startswith(".") and not start
        if hidden or not entry.name.startswith(start) or not entry.name.isprintable():
            continue
        if entry.is_dir():
            found.append(f"{folder}{slash}{entry.name}/")
        elif entry.name.lower().endswith(suffixes):
            found.append(f"{folder}{slash}{entry.name}")
    return found


def each_of(source: Source) -> Source:
    """Return a source for lists with commas: complete the last entry, offer no entry twice."""

    def found(context: click.Context, text: str) -> Offered:
        before, comma, last = text.rpartition(",")
        taken = before.split(",")
        known = source(context, last)
        return {f"{before}{comma}{k}": words for k, words in known.items() if k not in taken}

    return found


def equated(source: Source) -> Source:
    """Return a source of names of ``NAME=VALUE``, each with the equals sign behind the name."""
    return lambda context, text: {f"{k}=": words for k, words in source(context, text).items()}


@described
def systems() -> Offered:
    """Return the systems of the catalogue, with their titles."""
    return _titles(SYSTEMS)


@described
def datasets() -> Offered:
    """Return the recipes of the catalogue, with their titles."""
    return _titles(DATASETS)


@described
def models() -> Offered:
    """Return the architectures."""
    from vpintegrator.models.registry import ARCHITECTURES

    return ARCHITECTURES.descriptions()


def _titles(package: str) -> Offered:
    tables = {
        name: read_toml(entry.read_text(encoding="utf-8"), name)
        for name, entry in catalogue(package).items()
    }
    return {name: str(table["title"]) for name, table in tables.items()}


def parameters(context: click.Context, _: str) -> Offered:
    """Return the parameters of the system on the command line, or of its models."""
    given = dict(context.params)
    for each in context.command.params:
        # click has not shared them out where the last option still lacks its value
        if isinstance(each, click.Argument) and context.args and not given.get(str(each.name)):
            given[str(each.name)] = context.args if each.nargs == -1 else context.args[0]
    found = _system(given).get("parameters", {})
    # candidates end up on the command line: names alone, as equations have them
    return {
        name: printable(f"{value}", _WORDS) for name, value in found.items() if name.isidentifier()
    }


def model_options(context: click.Context, text: str) -> Offered:
    """Return ``NAME=`` of the model's options for --option; ``NAME=VALUE`` if values are words."""
    named = context.params.get("model")
    tables = [MODEL_OPTIONS[named]] if named in MODEL_OPTIONS else list(MODEL_OPTIONS.values())
    option, equals, _ = text.partition("=")
    if not equals:
        return {f"{name}=": "" for table in tables for name in table}
    return {f"{option}={value}": "" for table in tables for value in table.get(option, ())}


def _system(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the table of the system; for a recipe, of the system that it names."""
    if given.get("system"):
        return _described_by(str(given["system"]), SYSTEMS)
    if given.get("source"):
        table = _described_by(str(given["source"]), DATASETS)
        inner = table.get("system", table)
        return inner if isinstance(inner, Mapping) else _described_by(inner, SYSTEMS)
    paths = given.get("models") or [path for path in (given.get("model"),) if path]
    return _held_by(Path(paths[0])) if paths else {}


def _described_by(source: str, package: str) -> Mapping[str, Any]:
    """Read a TOML file of the catalogue, or else of the user."""
    for known in (catalogue(package), catalogue(SYSTEMS)):
        if source in known:
            return read_toml(known[source].read_text(encoding="utf-8"), source)
    path = Path(source).expanduser()
    _check_size(path, path.stat().st_size)
    return read_toml(path.read_text(encoding="utf-8"), source)


def _held_by(path: Path) -> Mapping[str, Any]:
    """Read the system in the header of a model file, which is JSON."""
    path = path.expanduser()
    _check_size(path, 0)
    with path.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        _check_size(path, size)
        header = json.loads(stream.read(size).decode())
    metadata = json.loads(header["__metadata__"]["metadata"])
    return read_toml(metadata["system"], str(path))


def _check_size(path: Path, size: int) -> None:
    """Refuse what is no plain file, which might never end, or too much for the press of a key."""
    if not path.is_file() or size > _LARGEST:
        raise InputError(f"{path} is not looked into")


@add_completion_class
class WholeWordsInBash(BashComplete):
    """Completion for bash, which splits words at ``=`` and inserts text unchanged.

    Bash splits ``--model=vpff`` and ``split=halves``, for example. No space follows a folder, or a
    word that ends in ``=``.
    """

    source_template = BashComplete.source_template.replace(
        "COMPREPLY+=($value)",
        "COMPREPLY+=($value)\n            [[ $value == *[=/] ]] && compopt -o nospace",
    )
    _before = ""  # name and equals sign before the value, which bash keeps

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the word to complete, and that word, both joined again."""
        words, last = super().get_completion_args()
        if last == "=":  # directly behind it there is nothing yet
            words, last = [*words, "="], ""
        if words[-1:] == ["="] and len(words) > 1:
            self._before = f"{words[-2]}="
            words, last = words[:-2], f"{self._before}{last}"
        return words, last

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the line for the function in bash; its ``read`` removes one of two backslashes."""
        value = item.value
        if self._before and value.startswith(self._before):
            value = value.removeprefix(self._before)
        return f"{item.type},{_TO_ESCAPE.sub(lambda found: chr(92) * 2 + found[0], value)}"


class WholeOption(ShellComplete):
    """Completion for shells that treat ``--model=vpff`` as one word and replace the whole word."""

    _option = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the word to complete, and the word to complete."""
        words, last = super().get_completion_args()
        name, equals, _ = last.partition("=")
        self._option = f"{name}=" if equals and name.startswith("-") else ""
        return words, last

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the lines that the completion function of the shell reads, with the whole word."""
        if item.type == "plain":
            item.value = f"{self._option}{item.value}"
        return super().format_completion(item)


@add_completion_class
class WholeOptionInFish(WholeOption, FishComplete):
    """Completion for fish, where offered words may contain commas.

    No space follows a folder, or a word that ends in ``=``.
    """

    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    )


@add_completion_class
class WholeOptionInZsh(WholeOption, ZshComplete):
    """Completion for zsh, without a space after a folder or after a name that ends in ``=``."""

    source_template = ZshComplete.source_template.replace(
        'if [[ "$descr" == "_" ]]; then',
        """if [[ "$key" == *[=/] ]]; then
                local -a shown=("$key${${descr:#_}:+  -- $descr}")
                compadd -U -V unsorted -S '' -l -d shown -- "$key"
            elif [[ "$descr" == "_" ]]; then""",
    )
