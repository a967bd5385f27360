"""Studies of vp-train: trainings of all combinations of values, and the table of their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vpintegrator.cli import command as cli
from vpintegrator.cli.arguments import argument_value, declared_arguments
from vpintegrator.errors import InputError


def read_study_entries(model: str | None, entries: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of each varied quantity from texts such as ``window=2,3,5``.

    Raises
    ------
    InputError
        If a text is no name with values, or a name is given twice.
    """
    texts: dict[str, list[str]] = {}
    for entry in entries:
        name, equals, words = (part.strip() for part in entry.partition("="))
        values = [word.strip() for word in words.split(",")]
        if not equals or not name or not all(values):
            raise InputError(f"--study {entry}: give NAME=VALUE,VALUE,..., such as window=2,3,5")
        if name in texts:
            raise InputError(f"--study {entry}: {name} is given twice")
        texts[name] = values
    names = [model] if model is not None else texts.get("model", [])
    known: dict[str, Any] = {}
    for each in names:
        known = declared_arguments(each) | known
    return {
        name: [
            argument_value(name, text, known[name].kinds, known[name].choices)
            if name in known
            else cli.number_or_text(text)
            for text in values
        ]
        for name, values in texts.items()
    }


def read_workers(text: str | None) -> dict[str, Any]:
    """Return the number of processes, or the address of a dask scheduler, as keywords."""
    if text is None:
        return {}
    value = cli.number_or_text(text)
    return {"workers": value} if isinstance(value, int | float) else {"scheduler": text}


def run_study(
    dataset: Path, model: str | None, folder: Path, overwrite: bool, options: Mapping[str, Any]
) -> None:
    """Train what is missing of a study, and print a line for each training and each combination."""
    import vpintegrator as vp
    from vpintegrator.runtime.interrupts import terminate_as_interrupt

    terminate_as_interrupt()
    names = [*options["vary"], "seed"]

    def show(row: Mapping[str, Any], done: int, count: int) -> None:
        words = ", ".join(f"{name} {row[name]}" for name in names)
        result = f"error {row['error']:.2e} after {row['seconds']:.1f} s"
        cli.say(f"{done} of {count}: {words}: {result if row['file'] else row['note']}")

    try:
        frame, _ = vp.study(
            dataset, model, folder=folder, overwrite=overwrite, progress=show, **options
        )
    except KeyboardInterrupt:
        cli.say(f"{folder} holds what is trained; the same command goes on with it")
        raise
    errors = frame.groupby(names[:-1], sort=False)["error"].agg(["median", "min", "max"])
    cli.say(f"error of {len(frame)} trainings:")
    for line in errors.to_string(float_format="{:.2e}".format).splitlines():
        cli.say(f"  {line}")
    cli.say(f"written to {folder}: a file of each model and study.csv; draw it: vp-plot {folder}")
    cli.write_json(lambda: {"output": folder, "trainings": frame.to_dict("records")})
