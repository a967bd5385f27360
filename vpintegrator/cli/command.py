"""Base of all commands: groups of options, output, progress, mistakes in one sentence.

Nothing slow is imported at the top of this module or of a command, so that ``--help`` answers at
once.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import click

from vpintegrator.errors import InputError, nearest, printable

GROUPS = ("What", "How much", "Output")
# modules of the commands, and the public functions that they call
COMMANDS = {
    "vp-gen": ("gen", ("generate",)),
    "vp-import": ("importing", ("import_dataset",)),
    "vp-show": ("show", ("show",)),
    "vp-train": ("train", ("fit", "train", "study")),
    "vp-rollout": ("rollout", ("compare",)),
    "vp-plot": ("plot", ("draw",)),
    "vp-export": ("export", ("export",)),
}
# what users look for in another command
_ELSEWHERE = {"--from": "vp-import FILE", "--list": "vp-show systems", "--show": "vp-show SYSTEM"}
_KEY = "vpintegrator.output"
_OUT_OF_MEMORY = "take fewer windows (--batch) or trajectories at once, or --device cpu"


class Mistake(click.ClickException):
    """A mistake of the user: one sentence, exit code 2."""

    exit_code = 2


class Option(click.Option):
    """An option in one of the groups of the help."""

    def __init__(self, flags: tuple[str, ...], group: str, **settings: Any) -> None:
        self.group = group
        super().__init__(flags, **settings)


class PlainCommand(click.Command):
    """A command whose mistakes are one sentence and exit code 2."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; a wrong one is a sentence with the way to say it."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = str(ctx.info_name)
            raise Mistake(_unknown(name, self, error.option_name)) from None
        except click.UsageError as error:
            raise Mistake(printable(error.format_message()).rstrip(".")) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; warnings are lines, mistakes sentences, and Ctrl-C leaves with 130."""
        with sentences():
            return super().invoke(ctx)


class Command(PlainCommand):
    """A command whose help has groups of options, a line for each."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each group of options."""
        options = [parameter for parameter in self.params if isinstance(parameter, Option)]
        for group in GROUPS:
            if records := [_record(each) for each in options if each.group == group]:
                with formatter.section(group):
                    formatter.write_dl(records, 36)
        formatter.write_paragraph()
        formatter.write_text("-h, --help shows this page, --version the version.")


def _record(option: Option) -> tuple[str, str]:
    """Return the two columns of an option's line."""
    value = "" if option.is_flag else f" {option.metavar}"
    return f"{', '.join(option.opts)}{value}", option.help or ""


@contextmanager
def sentences() -> Iterator[None]:
    """Turn the user's mistakes in the block into one sentence and exit code 2."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _one_line_a_reason()
            yield
    except InputError as error:
        raise Mistake(str(error)) from None
    except OSError as error:
        name = f": {error.filename}" if error.filename else ""
        raise Mistake(printable(f"{error.strerror or error}{name}")) from None
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # torch's, which need not be imported
            raise
        raise Mistake(f"the GPU has no memory left: {_OUT_OF_MEMORY}") from None
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        raise SystemExit(130) from None


def _one_line_a_reason() -> Callable[..., None]:
    """Return a function that shows each reason for a warning once, in one line."""
    shown = set()

    def show(message: Warning | str, *_: Any) -> None:
        text = printable(str(message))
        reason = text.partition(": ")[2] or text
        if reason not in shown:
            click.echo(f"Warning: {text}", err=True)
        shown.add(reason)

    return show


def _unknown(name: str, command: click.Command, option: str) -> str:
    """Return the sentence about an option that a command does not have."""
    start = f"{name} has no option {option}"
    if option in _ELSEWHERE:
        return f"{start}; type {_ELSEWHERE[option]}"
    import vpintegrator as vp
    from vpintegrator.models import ARCHITECTURES

    argument = option.removeprefix("--").replace("-", "_")
    public = COMMANDS.get(name, ("", ()))[1]
    for function in public:
        if argument in known(getattr(vp, function)):
            return f"{start}; it is an argument in Python: vp.{function}(..., {argument}=...)"
    for other, (module, _) in COMMANDS.items():
        if option in flags_of(importlib.import_module(f"vpintegrator.cli.{module}").main):
            return f"{start}; it is an option of {other}"
    if "fit" in public and any(argument in known(model) for model in ARCHITECTURES.values()):
        return f"{start}; type --set {argument}=VALUE"
    return start + (nearest(option, flags_of(command)) or f"; {name} --help lists them")


def known(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the arguments of a function or class by name."""
    return inspect.signature(function).parameters


def flags_of(command: click.Command) -> list[str]:
    """Return the options of a command as one types them."""
    return [flag for each in command.params if isinstance(each, Option) for flag in each.opts]


def command(function: Callable[..., None]) -> Command:
    """Make a command of a function whose options were declared by :func:`group`."""
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    version = click.version_option(package_name="vpintegrator")
    made: Command = click.command(cls=Command, context_settings=settings)(version(function))
    return made


def group(title: str, **options: dict[str, Any]) -> Callable[..., Any]:
    """Declare a group of options by keyword; values come from the functions below."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, settings in reversed(options.items()):
            flags = (*settings.get("short", ()), f"--{name.replace('_', '-')}", name)
            keywords = {key: value for key, value in settings.items() if key != "short"}
            function = click.option(*flags, cls=Option, group=title, **keywords)(function)
        return function

    return declare


def whole(least: int, help: str, **settings: Any) -> dict[str, Any]:
    """Return settings of an option that takes a whole number."""
    return {"type": click.IntRange(min=least), "metavar": "N", "help": help, **settings}


def number(metavar: str, help: str) -> dict[str, Any]:
    """Return settings of an option that takes a number."""
    return {"type": float, "metavar": metavar, "help": help}


def text(metavar: str, help: str, **settings: Any) -> dict[str, Any]:
    """Return settings of an option that takes a text."""
    return {"metavar": metavar, "help": help, **settings}


def many(metavar: str, help: str, **settings: Any) -> dict[str, Any]:
    """Return settings of an option that may be given several times."""
    return {"multiple": True, "metavar": metavar, "help": help, **settings}


def choice(metavar: str, choices: Sequence[str], help: str) -> dict[str, Any]:
    """Return settings of an option that takes one of some words."""
    return {"type": click.Choice(choices), "metavar": metavar, "help": help}


def flag(help: str, **settings: Any) -> dict[str, Any]:
    """Return settings of an option without a value."""
    return {"is_flag": True, "help": help, **settings}


def output_group(output: str, verbose: str = "") -> Callable[..., Any]:
    """Declare ``-o`` and ``--overwrite``, and the options of printing, which no command receives.

    Parameters
    ----------
    output
        Words on the file that is written.
    verbose
        Words on the lines that ``--verbose`` adds; without them there is no such option.
    """
    kept = {"expose_value": False, "callback": _keep}
    more = {"verbose": flag(verbose, short=("-v",), **kept)} if verbose else {}
    return group(
        "Output",
        output=text("PATH", output, short=("-o",), type=click.Path(path_type=Path)),
        overwrite=flag("Replace output that exists."),
        quiet=flag("Print errors only.", short=("-q",), **kept),
        json=flag("Print the results as JSON.", **kept),
        **more,
    )


def _keep(context: click.Context, option: click.Parameter, value: bool) -> None:
    if value:
        context.meta[f"{_KEY}.{option.name}"] = True


def is_set(name: str) -> bool:
    """Whether ``quiet``, ``json`` or ``verbose`` was given to the command that runs."""
    context = click.get_current_context(silent=True)
    return context is not None and f"{_KEY}.{name}" in context.meta


def say(text: object) -> None:
    """Print lines without control characters; with --json on standard error."""
    if not is_set("quiet"):
        lines = str(text).split("\n")
        click.echo("\n".join(map(printable, lines)), err=is_set("json"))


def line_width() -> int | None:
    """Return the letters in a line of the terminal; None in a pipe, where lines have any length."""
    from vpintegrator.runtime.progress import NOTEBOOK, in_notebook

    if in_notebook():
        return NOTEBOOK
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def progress() -> AbstractContextManager[Callable[[str, int, int], None]]:
    """Show one bar on standard error; the block calls its value with a name, done and total."""
    from vpintegrator.runtime.progress import step_bar

    return step_bar(not is_set("quiet"), patience=0.0)


def write_json(facts: Callable[[], Mapping[str, Any]]) -> None:
    """Print facts as JSON, if --json was given: infinity is ``"inf"``, NaN is null."""
    if is_set("json"):
        click.echo(json.dumps(_strict(facts()), indent=2, ensure_ascii=False))


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {printable(str(key)): _strict(entry) for key, entry in value.items()}
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        return text if text.isprintable() or "\n" in text else printable(text)
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return _strict(value.tolist())
    if isinstance(value, list | tuple):
        return [_strict(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def read_parameters(entries: tuple[str, ...]) -> dict[str, Any]:
    """Parse ``("I1=3", "m=2,1")`` to ``{"I1": 3.0, "m": [2.0, 1.0]}``; keep other values."""
    parameters = {}
    for entry in entries:
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not equals or not name or not value:
            raise InputError(f"'{entry}': a parameter is given as NAME=VALUE, such as I1=3")
        parts = [number_or_text(part.strip()) for part in value.split(",")]
        parameters[name] = parts if len(parts) > 1 else parts[0]
    return parameters


def number_or_text(text: str) -> int | float | str:
    """Return the number that a text says, or the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def names(text: str | None) -> list[str] | None:
    """Return names written with commas between."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def check_outputs(
    paths: Sequence[Path], overwrite: bool, check_arguments: Callable[[], object]
) -> None:
    """Raise InputError if a file cannot be written, early.

    A mistake in the arguments, which ``check_arguments`` raises, is told first: with other
    arguments the file may be another one.
    """
    from vpintegrator.storage.files import check_output

    try:
        for path in paths:
            check_output(path, overwrite)
    except InputError:
        check_arguments()
        raise


def given(**values: Any) -> dict[str, Any]:
    """Return the values that are not None: those that the user gave."""
    return {name: value for name, value in values.items() if value is not None}


PARAMETERS = many("NAME=VALUE", "Set a parameter: -p g=9.81; -p m=2,1 for arrays.", short=("-p",))
