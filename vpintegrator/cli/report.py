"""Report on a dataset that was written: trajectories, accuracy, drifts and size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpintegrator.cli.command import is_set, say, write_json

if TYPE_CHECKING:
    from vpintegrator.data import Dataset


def report(dataset: Dataset, notes: list[tuple[str, str]] | None = None) -> None:
    """Print lines on a dataset that was written: its trajectories, accuracy, drifts and size."""
    import vpintegrator as vp
    from vpintegrator.data.inspection import accuracy_text
    from vpintegrator.overview import dataset_facts

    accuracy = dataset.accuracy
    error = accuracy.get("estimated_error")
    drifts = accuracy.get("invariant_drift", {})
    lines = [("trajectories", dataset.description), *(notes or [])]
    if observation := dataset.observation.words:
        lines.append(("observed", observation))
    if error is not None:
        lines.append(("accuracy", accuracy_text(f"{error:.1e}", accuracy)))
    elif notes is None:
        way = "iterated by formula" if dataset.system.is_discrete else "of a classical method"
        lines.append(("accuracy", f"states {way}: exact but for rounding"))
    if drift := ", ".join(f"{k.replace('_', ' ')} {v:.1e}" for k, v in drifts.items()):
        lines.append(("invariants", f"largest relative change: {drift}"))
    size = sum(file.stat().st_size for file in dataset.path.parent.glob(f"{dataset.path.name}*/*"))
    size += dataset.path.stat().st_size
    lines.append(("written to", f"{dataset.path} ({size / 2**20:.3g} MiB)"))
    if is_set("verbose"):
        say(vp.show(dataset))
    else:
        say("\n".join([dataset.title, *(f"  {head:<15}{text}" for head, text in lines)]))
    write_json(lambda: {"output": dataset.path, **dataset_facts(dataset)})
