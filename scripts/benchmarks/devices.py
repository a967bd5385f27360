"""Machine code on a GPU beside PyTorch's and JAX's: rollouts and steps of training.

    python scripts/benchmarks/devices.py --folder measured
    python scripts/benchmarks/all.py --only devices --folder measured --record docs/gpu.md

Rollouts are of the published transformer, of polynomials of the rigid body and of a symplectic
ring, for 10^4 ... 10^7 trajectories: as machine code, in eager PyTorch, by ``torch.compile``, alone
and with CUDA graphs (``mode="reduce-overhead"``), and in ``jax.lax.scan``, jitted, both by
components with trajectories last and by windows under ``vmap``. A time is that of a call of the
network for all trajectories. Steps of training are those of Adam, and of Levenberg-Marquardt with
J^T J, its Cholesky factor and the cost of the step.

All candidates of a row take turns in one process; what is timed ends when the device is done
(``torch.cuda.synchronize``, ``block_until_ready``), and begins after calls that do not count, so
that time to compile is apart. Every candidate is first compared with PyTorch on the CPU in the same
precision, and is left out, with the reason, where it differs by more than rounding, or fails. The
roofline counts the operations and the bytes that the network needs, 30 for a ``tanh``, by what the
device does in a large matrix product and in a copy, measured in the same run; the share is of the
device's own time of our machine code (``torch.cuda.Event``).

With a folder, what is measured is kept there, a file for each row, and is not measured again: an
interrupted measurement goes on.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
from devices_machine import Device
from devices_rollouts import NETWORKS, Rollouts
from devices_training import FirstOrderSteps, NewtonSteps
from harness import benchmark, duration, machine, name_of, print_table, ratio, write_result

# isort: split

import torch

DTYPES = (torch.float64, torch.float32)
CANDIDATES = ("ours", "eager", "torch.compile", "CUDA graphs", "jax.lax.scan", "jax vmap", "jax")
MODELS = ("published vpt", "vpff", "vpt")


class Sizes(NamedTuple):
    """Of what is measured: trajectories, and windows of steps of both kinds."""

    trajectories: tuple[int, ...]
    first_order: tuple[int, ...]
    newton: tuple[int, ...]


ON_A_GPU = Sizes((10**4, 10**5, 10**6, 10**7), (2**14, 2**17, 2**20), (2**12, 2**16))
ON_A_CPU = Sizes((1000,), (1024,), (256,))  # a try-out
QUICK = Sizes((16,), (32,), (32,))


class Row(NamedTuple):
    """A row of a table: the table, its name in the folder, and what measures it."""

    table: str
    name: str
    measure: Callable[[float], dict[str, Any]]


def rows(device: Device, quick: bool) -> Iterator[Row]:
    """All that is measured on a device."""
    sizes = QUICK if quick else ON_A_GPU if device.is_gpu else ON_A_CPU
    dtypes, models = (DTYPES[:1], MODELS[:1]) if quick else (DTYPES, MODELS)
    for name, network in NETWORKS.items():
        for dtype in dtypes:
            for count in sizes.trajectories:

                def rollouts(
                    seconds: float, network: Any = network, dtype: Any = dtype, count: int = count
                ) -> dict[str, Any]:
                    return Rollouts(device, network, dtype, count).measure(seconds)

                yield Row("rollout", f"{name}-{name_of(dtype)}-{count}", rollouts)
    of_steps: tuple[tuple[str, Any, tuple[int, ...]], ...] = (
        ("first-order", FirstOrderSteps, sizes.first_order),
        ("newton", NewtonSteps, sizes.newton),
    )
    for table, kind, counts in of_steps:
        for name in models:
            for dtype in dtypes:
                for count in counts:

                    def steps(
                        seconds: float,
                        kind: Any = kind,
                        name: str = name,
                        dtype: Any = dtype,
                        count: int = count,
                    ) -> dict[str, Any]:
                        found: dict[str, Any] = kind(device, name, dtype, count).measure(seconds)
                        return found

                    short = name.replace(" ", "-")
                    yield Row(table, f"{short}-{name_of(dtype)}-{count}", steps)


def print_times(title: str, first: list[str], results: list[list[Any]], notes: list[str]) -> None:
    """A table of what each candidate takes; each result has its first cells and what was found."""
    times = [found["times"] for _, found in results]
    names = [name for name in CANDIDATES if any(name in of_row for of_row in times)]
    peers = [name for name in names if name != "ours"]
    of_machine = any("roofline" in found for _, found in results)
    columns = [*first, *names, *(f"by {peer}" for peer in peers if "ours" in names)]
    columns += ["of roofline", "largest error"] if of_machine else []
    lines = []
    for cells, found in results:
        spent, ours = found["times"], found["times"].get("ours")
        line = [*cells, *(duration(spent[name]) if name in spent else "-" for name in names)]
        if "ours" in names:
            line += [ratio(spent[p], ours) if ours and p in spent else "-" for p in peers]
        if of_machine:
            alone = found.get("device") or ours
            line.append(f"{found['roofline'] / alone:.0%}" if "roofline" in found else "-")
            line.append(f"{found['errors']['ours']:.1e}" if "ours" in found["errors"] else "-")
        lines.append(line)
    seen: dict[str, list[str]] = {}
    for cells, found in results:
        for name, reason in found["left_out"].items():
            seen.setdefault(f"{name} is left out: {reason}", []).append(" ".join(cells))
    left_out = [f"{', '.join(where)}: {text}" for text, where in seen.items()]
    print_table(title, columns, lines, [*left_out, *notes])


def print_all(results: dict[str, list[dict[str, Any]]], limits: list[str]) -> None:
    """The tables."""
    for name, network in NETWORKS.items():
        of_network = [
            [[f"{found['trajectories']:,}", found["dtype"]], found]
            for found in results.get("rollout", [])
            if found["entry"].startswith(f"{name}-")
        ]
        if of_network:
            title = f"Rollout of {network.title}, a call for all trajectories"
            print_times(title, ["trajectories", "dtype"], of_network, [])
    titles = {"first-order": "A step of Adam", "newton": "A step of Levenberg-Marquardt"}
    for table, title in titles.items():
        found_steps = [
            [[found["model"], found["dtype"], f"{found['windows']:,}"], found]
            for found in results.get(table, [])
        ]
        if found_steps:
            print_times(title, ["model", "dtype", "windows"], found_steps, [])
    compiled = [
        [table, found["entry"], *(_seconds(found["compiling"], name) for name in CANDIDATES)]
        for table, of_table in results.items()
        for found in of_table
    ]
    columns = ["table", "row", *CANDIDATES]
    print_table("Compilation and the first result", columns, compiled, limits)


def _seconds(compiling: dict[str, float], name: str) -> str:
    return duration(compiling[name]) if name in compiling else "-"


@benchmark(seconds=3.0)
@click.option("--device", default="cuda", show_default=True, help="cuda, cuda:1, cpu, ...")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to keep what is measured, and to go on from.",
)
def main(seconds: float, threads: int, quick: bool, device: str, folder: Path | None) -> None:
    """Compare machine code on a GPU with PyTorch and JAX there.

    On a CPU the same rows are small: they try the command out and say nothing about a GPU.
    """
    there = Device(device)
    limits, done = there.limits(), dict[str, list[dict[str, Any]]]()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if folder is None else folder
        folder.mkdir(parents=True, exist_ok=True)
        listed = list(rows(there, quick))
        for number, row in enumerate(listed, 1):
            entry = f"{row.name}-{there.torch.type}"
            path = folder / f"{row.table}-{entry}.json"
            if not path.exists():
                click.echo(f"{number} of {len(listed)}: {row.table}, {row.name}", err=True)
                found = row.measure(0.0 if quick else seconds)
                there.release()
                of_row = {"system": row.table, "entry": entry, "limits": limits}
                found |= {"machine": re.sub(r" \(load [^)]*\)", "", machine())}
                write_result(folder, of_row | found)
            done.setdefault(row.table, []).append(json.loads(path.read_text("utf-8")))
    everything = [found for of_table in done.values() for found in of_table]
    notes = sorted({line for found in everything for line in found["limits"]})
    notes += sorted({found["machine"] for found in everything})
    print_all(done, notes)


if __name__ == "__main__":
    main()
