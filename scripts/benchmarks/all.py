"""All benchmarks of speed, one after the other, that of symplectic networks, and their record.

    python scripts/benchmarks/all.py --record docs/results/benchmarks.md

The record is a document with a place for the tables of each, between the lines ``<!-- NAME -->``
and ``<!-- end -->``; what is there is replaced, the rest stays. The accuracy of networks after
equal seconds of training takes half an hour and has a command of its own, ``accuracy.py``; so has
that over the catalogue, ``catalogue.py``, four hours.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import click

from vpintegrator.cli.command import PlainCommand
from vpintegrator.errors import InputError
from vpintegrator.storage.files import replacing

SPEED = (
    "rollout",
    "windows",
    "polynomials",
    "training",
    "generation",
    "work_precision",
    "classical",
    "export",
    "startup",
)
NAMES = (*SPEED, "symplectic")
FOLDER = Path(__file__).parent


def place(name: str) -> re.Pattern[str]:
    """Where a record has the tables of a benchmark."""
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)", re.DOTALL)


@click.command(cls=PlainCommand)
@click.option("--only", metavar="NAME,...", help=f"Some of: {', '.join(NAMES)}.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--quick", is_flag=True, help="Small sizes: a try-out, no measurement.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Document that gets the tables, as Markdown.",
)
@click.option("--folder", help="Where symplectic keeps what is measured.")
def main(
    only: str | None, threads: int, quick: bool, record: Path | None, folder: str | None
) -> None:
    """Run all benchmarks: half an hour, on a machine that does nothing else.

    Those of speed take some eight minutes of it, the training of symplectic networks the rest.
    """
    names = list(NAMES) if only is None else [name.strip() for name in only.split(",")]
    for name in names:
        if name not in NAMES:
            raise InputError(f"--only: '{name}' is none of {', '.join(NAMES)}")
    text = None
    if record is not None:
        if not record.exists():
            raise InputError(f"there is no document {record} with places for the tables")
        text = record.read_text(encoding="utf-8")
        for name in names:
            if not place(name).search(text):
                raise InputError(f"{record} has no lines <!-- {name} --> and <!-- end -->")
    for name in names:
        arguments = ["--threads", str(threads), *(["--quick"] if quick else [])]
        arguments += ["--markdown"] if record is not None else []
        arguments += ["--folder", folder] if folder is not None and name not in SPEED else []
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, str(FOLDER / f"{name}.py"), *arguments],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise click.ClickException(f"{name}.py failed: what it said is above")
        click.echo(
            done.stdout if record is None else f"{name}: {time.perf_counter() - begin:.0f} s"
        )
        if record is not None and text is not None:
            # each at once: an interruption leaves what is measured
            tables = f"\n{done.stdout.strip()}\n\n"
            text = place(name).sub(lambda _, tables=tables: tables, text, count=1)
            with replacing(record, overwrite=True) as temporary:
                temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
