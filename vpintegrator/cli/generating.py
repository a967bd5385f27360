"""vp-gen while it integrates: the progress bar, interruptions, and what was written."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from vpintegrator.cli.common import console, progress_bar
from vpintegrator.errors import printable

if TYPE_CHECKING:
    from vpintegrator.data import Dataset, Recipe


def generate_with_progress(recipe: Recipe, path: Path, **options: Any) -> Dataset:
    """Call :func:`vpintegrator.generate`, with a bar, and leave with 130 when interrupted."""
    from rich.progress import TextColumn

    from vpintegrator.data import generate

    # a cluster's way to say that the time is over
    before = signal.signal(signal.SIGTERM, _interrupt)
    columns = TextColumn("{task.percentage:>3.0f}%"), TextColumn("{task.fields[rate]}")
    with progress_bar(*columns) as bar:
        task = bar.add_task(printable(recipe.system.name), total=None, rate="")

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            speed = (bar.tasks[0].speed or 0) / (recipe.steps + 1)
            rate = f"{speed:,.0f}" if speed > 10 else f"{speed:.2g}"
            bar.update(task, rate=f"{rate} trajectories/s" if speed else "")

        try:
            dataset = generate(recipe, path, progress=show, **options)
        except KeyboardInterrupt:
            bar.stop()
            _say_how_to_go_on(path)
            raise SystemExit(130) from None
        finally:
            signal.signal(signal.SIGTERM, before)  # what is written needs no last words
    return dataset


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say_how_to_go_on(path: Path) -> None:
    from vpintegrator.data.generation.shards import folder_of

    folder = folder_of(path)
    kept = len(list(folder.glob("*.h5")))
    text = "interrupted; nothing was written"
    if folder.exists():
        text = (
            f"interrupted, nothing is lost: {folder} holds {kept} finished "
            f"shard{'' if kept == 1 else 's'}; the same command with --resume goes on"
        )
    console().print(text, soft_wrap=True)
