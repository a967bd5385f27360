"""Code that all commands share: errors, parameters given as NAME=VALUE, progress bars.

Nothing slow is imported here or at the top of a command, so that ``--help`` answers at once.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from vpintegrator.cli.output import UNLIMITED, is_asked, output_options
from vpintegrator.errors import InputError, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

P = ParamSpec("P")
R = TypeVar("R")

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_OUT_OF_MEMORY = "take fewer windows (--batch) or trajectories at once, or --device cpu"


def plain_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Turn the user's mistakes into one sentence and exit code 2; a full disk or GPU, too.

    The sentence may hold words of a file: what could steer the terminal is left out. A warning is
    one line, without the line of the program that gave it; of several for one reason, the first.
    Ctrl-C that nobody has made a result of leaves with 130, as from any program that it ends.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _one_line_a_reason()
                return function(*args, **kwargs)
        except InputError as error:
            raise _BadInput(str(error)) from None
        except OSError as error:
            name = f": {error.filename}" if error.filename else ""
            raise _BadInput(printable(f"{error.strerror or error}{name}")) from None
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":  # torch's, which need not be imported
                raise
            raise _BadInput(f"the GPU has no memory left: {_OUT_OF_MEMORY}") from None
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            raise SystemExit(130) from None

    return wrapped


def _one_line_a_reason() -> Callable[..., None]:
    """Return a function that shows each reason for a warning once, in one line."""
    told = set()

    def show(message: Warning | str, *_: Any) -> None:
        text = printable(str(message))
        reason = text.partition(": ")[2] or text
        if reason not in told:
            click.echo(f"Warning: {text}", err=True)
        told.add(reason)

    return show


class _BadInput(click.ClickException):
    exit_code = 2


def read_parameters(entries: tuple[str, ...]) -> dict[str, Any]:
    """Parse ``("I1=3", "m=2,1")`` to ``{"I1": 3.0, "m": [2.0, 1.0]}``; keep other values."""
    parameters = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise InputError(f"'{entry}': a parameter is given as NAME=VALUE, such as I1=3")
        parts = [_number(part.strip()) for part in value.split(",")]
        parameters[name.strip()] = parts if len(parts) > 1 else parts[0]
    return parameters


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_fractions(text: str) -> list[float]:
    """Return the fractions of train, validation and test, written with commas between."""
    values = read_numbers(text, "fractions")
    if len(values) != 3:
        raise InputError(f"--fractions {text}: expected three parts, as in 0.7,0.15,0.15")
    return values


def read_numbers(text: str, option: str, kind: Callable[[str], Any] = float) -> list[Any]:
    """Return the numbers of an option, written with commas between."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        flag = option.replace("_", "-")
        raise InputError(f"--{flag} {text}: expected numbers with commas between") from None


def columns_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--columns``, which the command receives as a list of titles, or None."""
    return click.option(
        "--columns",
        metavar="TITLE,...",
        callback=lambda _context, _option, text: text and [t.strip() for t in text.split(",")],
        help="Columns of the table beside the methods' names, such as 'median RMSE,energy error'; "
        "docs/reference/numbers.md lists them.  [default: the most telling; all in table.csv]",
    )(command)


class Options:
    """Options that one module of a command declares, which decorate the command together."""

    def __init__(self, *options: Callable[..., Any]) -> None:
        self._options = options
        # names of the options by keyword
        self.names = [str(p.name) for p in self(lambda: None).__click_params__]

    def __call__(self, command: Callable[..., Any]) -> Any:
        for option in reversed(self._options):
            command = option(command)
        return command


# options of every command, and its errors in a sentence
common_options = Options(
    output_options,
    click.version_option(package_name="vpintegrator"),  # looked up only when asked for
    plain_errors,
)


overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Replace output that exists already."
)


def file_options(help: str, **output: Any) -> Options:
    """Return ``--output`` and ``--overwrite``."""
    path = click.Path(path_type=Path)
    return Options(
        click.option("-o", "--output", type=path, help=help, **output),
        overwrite_option,
    )


def worker_options(processes: str, scheduler: str, **workers: Any) -> Options:
    """Return ``--workers`` and ``--scheduler``, with their texts of help."""
    least = click.IntRange(min=1)
    return Options(
        click.option("--workers", type=least, help=processes, **workers),
        click.option("--scheduler", metavar="ADDRESS|FILE", help=scheduler),
    )


def parameter_option(
    help: str = "Set a parameter of the system; repeat for several; commas for an array (m=2,1).",
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add ``-p NAME=VALUE``, once or several times."""
    flags = ("-p", "--parameter", "parameters")
    return click.option(*flags, multiple=True, metavar="NAME=VALUE", help=help)


def compiled_option(help: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add ``--compiled auto|yes|no``, received as None, True or False."""
    values = {"auto": None, "yes": True, "no": False}
    return click.option(
        "--compiled",
        type=click.Choice(list(values)),
        default="auto",
        show_default=True,
        callback=lambda _context, _option, value: values[value],
        help=help,
    )


def device_option(help: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add ``--device``, a device of PyTorch, which the command has to check."""
    return click.option(
        "--device",
        default="cpu",
        show_default=True,
        metavar="cpu|cuda|cuda:N|mps",
        help=help,
    )


def console() -> Console:
    """Return the terminal for results; control characters in texts have no effect.

    In a pipe or a file lines may be of any length, in a notebook they are those of a page, plain.
    With --json it is standard error, with --quiet nothing.
    """
    from rich.console import Console
    from rich.text import Text

    from vpintegrator.runtime.progress import NOTEBOOK, in_notebook

    class PlainConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            lines = text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
            return super().render_str(lines, **options)

    out = PlainConsole(
        highlight=False,
        markup=False,
        emoji=False,
        stderr=is_asked("json"),
        quiet=is_asked("quiet"),
        force_terminal=False if in_notebook() else None,
    )
    if not out.is_terminal:
        out.width = NOTEBOOK if in_notebook() else UNLIMITED
    return out


def tell(text: object) -> None:
    """Print a sentence, which the terminal wraps."""
    console().print(text, soft_wrap=True)


def say_title(text: str) -> None:
    """Print what the following is about."""
    console().print(text, style="bold", soft_wrap=True)


def say(heading: str, text: str, style: str | None = None) -> None:
    """Print a line of what is known under a title."""
    console().print(f"  {heading:<15}{text}", soft_wrap=True, style=style)


def say_all(lines: Iterable[tuple[str, str]]) -> None:
    """Print lines with their headings; one that is that of the line before is left out."""
    before = ""
    for heading, text in lines:
        say("" if heading == before else heading, text)
        before = heading


def progress_bar(*columns: Any) -> AbstractContextManager[Progress]:
    """Show a progress bar on standard error, see :mod:`vpintegrator.runtime.progress`."""
    from vpintegrator.runtime.progress import progress_bar

    return progress_bar(*columns, quiet=is_asked("quiet"))
