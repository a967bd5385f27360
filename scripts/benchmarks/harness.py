"""What the benchmarks share: fair timing, the machine they ran on, its limits, tables.

A benchmark is a command, ``python scripts/benchmarks/NAME.py``, declared with :func:`benchmark`::

    @benchmark(seconds=5.0)
    @click.option("--batch", default=16384, show_default=True)
    def main(seconds: float, threads: int, quick: bool, batch: int) -> None:
        ...
        print_table("Title", ["", "ours", "peer"], [["T = 3", "70 us", "2.1 ms"]])
"""

# ruff: noqa: E402
from __future__ import annotations

import os

# before NumPy and its peers are imported: they read it once. torch alone is told by --threads
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import contextlib
import ctypes
import functools
import json
import math
import multiprocessing
import platform
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
import torch

from vpintegrator.cli.command import PlainCommand
from vpintegrator.compiled import NotCompilable
from vpintegrator.compiled.library import load_library
from vpintegrator.compiled.source import prelude
from vpintegrator.errors import InputError
from vpintegrator.storage.files import replacing

_SAMPLE = 2e-3  # seconds: shorter calls are repeated to last so long, far above a clock's error
_FEWEST = 3  # rounds
_LATE = 75  # exit code of a measurement that takes too long
_clock = time.perf_counter
TANH = 30  # operations of a tanh to rounding, about
_PACKAGES = ("vpintegrator", "torch", "numpy", "scipy")
_PEERS = ("jax", "strupnet", "heyoka")


def benchmark(seconds: float = 5.0) -> Callable[[Callable[..., None]], click.Command]:
    """A command with the options of every benchmark; ``seconds`` is the default of its own.

    The function is given ``seconds`` (of each comparison), ``threads`` and ``quick``. The process
    is kept on as many cores as threads, so that no peer uses more.
    """

    def decorate(function: Callable[..., None]) -> click.Command:
        @functools.wraps(function)
        def run(threads: int, markdown: bool, cpu_time: bool, **arguments: Any) -> None:
            global _clock
            _clock = time.process_time if cpu_time else time.perf_counter
            use_threads(threads)
            function(threads=threads, **arguments)

        options = [
            click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True),
            click.option(
                "--seconds",
                type=click.FloatRange(min=0),
                default=seconds,
                show_default=True,
                help="For each comparison.",
            ),
            click.option(
                "--cpu-time",
                is_flag=True,
                help="Time of the processor, where others use it too; not for GPUs.",
            ),
            click.option("--markdown", is_flag=True, help="Print tables as Markdown."),
            click.option("--quick", is_flag=True, help="Small sizes: a try-out, no measurement."),
        ]
        command = run
        for option in reversed(options):
            command = option(command)
        return click.command(cls=PlainCommand)(command)

    return decorate


def name_of(dtype: torch.dtype) -> str:
    """``float64`` or ``float32``."""
    return str(dtype).removeprefix("torch.")


def use_threads(threads: int) -> None:
    """Let torch use so many threads, and this process so many cores.

    Raises
    ------
    InputError
        If there are not so many cores.
    """
    torch.set_num_threads(threads)
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    if threads > len(cores):
        raise InputError(f"--threads {threads}: this machine has {len(cores)} cores")
    # any of them: benchmarks that run side by side should not all choose the same
    os.sched_setaffinity(0, random.sample(cores, threads))


class _Children:
    """Processes of this one that still run, such as compilers: their processor time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.ended = -1.0  # processor time of those that have ended, when this was read
        self.read = -math.inf

    def running(self, ended: float) -> float:
        """Return their processor time, at most a quarter of a second old."""
        now = time.monotonic()
        if ended != self.ended or now > self.read + 0.25:
            self.seconds = sum(map(_time_of, psutil.Process().children(recursive=True)))
            self.ended = ended
            self.read = now
        return self.seconds


_children = _Children()


def _time_of(process: psutil.Process) -> float:
    """Return the processor time of a process and of its children that have ended."""
    try:
        return sum(process.cpu_times()[:4])
    except psutil.Error:  # it has just ended
        return 0.0


def processor_time() -> float:
    """Return the processor time of this process and of all that it started, such as compilers."""
    spent = os.times()
    ended = spent.children_user + spent.children_system
    return spent.user + spent.system + ended + _children.running(ended)


@contextlib.contextmanager
def processor_seconds() -> Iterator[None]:
    """Let budgets in the block count processor time, which other programs do not shorten."""
    wall, time.perf_counter = time.perf_counter, processor_time
    try:
        yield
    finally:
        time.perf_counter = wall


def in_a_process(
    call: Callable[..., None], name: str, *arguments: Any, seconds: float | None = None
) -> str:
    """Call a measurement in a process that may hang or fail.

    Parameters
    ----------
    call, name, arguments
        The function and its arguments, of which the first float is the budget of a training.
    seconds
        Processor time after which the process ends. By default four budgets, and two minutes for
        data, compilers and rollouts.

    Returns
    -------
    str
        Reason why there is no result; empty if there is one.
    """
    if seconds is None:
        seconds = 4 * next(each for each in arguments if isinstance(each, float)) + 120
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_within, args=(seconds, call, name, *arguments))
    process.start()
    process.join()
    if process.exitcode == _LATE:
        return f"it takes more than {seconds:g} s"
    return "it failed as said above" if process.exitcode else ""


def _within(seconds: float, call: Callable[..., None], *arguments: Any) -> None:
    """Call a function in this process, and end it after some seconds of the processor."""

    def watch() -> None:
        while processor_time() < seconds:
            time.sleep(1.0)
        os._exit(_LATE)  # the measurement may hang in a library

    # no RLIMIT_CPU: under it Linux counts the time of a process in ticks, too coarse for costs
    threading.Thread(target=watch, daemon=True).start()
    call(*arguments)


def eager(model: torch.nn.Module, initial: np.ndarray, steps: int) -> np.ndarray:
    """As a user of PyTorch would."""
    window, states = torch.from_numpy(initial[:, None]), []
    with torch.inference_mode():
        for _ in range(steps):
            window = model(window)
            states.append(window)
        return torch.cat(states, dim=1).numpy()


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """What was measured of an entry on a system, whole or not at all, for tables to go on from."""
    with replacing(folder / f"{result['system']}-{result['entry']}.json", True) as temporary:
        temporary.write_text(json.dumps(result, indent=1), encoding="utf-8")


def time_together(
    candidates: Mapping[str, Callable[[], object]], seconds: float = 5.0
) -> dict[str, float]:
    """Median seconds of one call of each candidate.

    After one call of each that does not count, they take turns, so that whatever else the machine
    does hits all alike; every other round goes backwards. Candidates that launch work elsewhere, as
    on a GPU, must wait for it.
    """
    repeats = {name: _repeats(call) for name, call in candidates.items()}
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    order, start, rounds = list(candidates), time.perf_counter(), 0
    while rounds < _FEWEST or time.perf_counter() - start < seconds:
        for name in order:
            call, count = candidates[name], repeats[name]
            begin = _clock()
            for _ in range(count):
                call()
            samples[name].append((_clock() - begin) / count)
        order.reverse()
        rounds += 1
    return {name: float(np.median(values)) for name, values in samples.items()}


def _repeats(call: Callable[[], object]) -> int:
    """How often to call it in a sample, known after a call to warm up and a few to time."""
    call()
    count = 1
    while True:
        begin = _clock()
        for _ in range(count):
            call()
        spent = _clock() - begin
        if spent >= _SAMPLE:
            return count
        count = max(2 * count, int(count * _SAMPLE / max(spent, 1e-7)))


def machine() -> str:
    """The machine and the versions: CPU, cores, threads in use, load, Python, packages."""
    cpuinfo = Path("/proc/cpuinfo")
    found = cpuinfo.exists() and re.search(r"model name\s*: (.*)", cpuinfo.read_text())
    parts = [found[1] if found else platform.processor() or platform.machine()]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    load = f" (load {os.getloadavg()[0]:.1f})" if hasattr(os, "getloadavg") else ""
    parts.append(f"{os.cpu_count()} cores{load}")
    threads = torch.get_num_threads()
    parts.append(f"{threads} thread{'s' if threads > 1 else ''} in use")
    if _clock is time.process_time:
        parts.append("time of the processor")
    versions = [f"Python {platform.python_version()}"]
    for package in (*_PACKAGES, *_PEERS):
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return "; ".join([", ".join(parts), ", ".join(versions)])


@functools.cache
def peak(dtype: torch.dtype) -> float:
    """Floating-point operations a second, the best of large matrix products and, with a compiler,
    of a loop of multiplications and additions in registers: not every BLAS knows every machine.
    """
    size = 1024
    matrix = torch.ones(size, size, dtype=dtype)
    arrays = matrix.numpy()
    spent = min(_shortest(lambda: matrix @ matrix), _shortest(lambda: arrays @ arrays))
    found = [2 * size**3 / spent]
    with contextlib.suppress(NotCompilable):
        real = {torch.float32: "float", torch.float64: "double"}[dtype]
        library = load_library(prelude(real, narrow=False) + _MULTIPLY_ADD)
        library.multiply_add.restype = ctypes.c_long
        rounds, values = 100_000, np.ones(1000, arrays.dtype)
        arguments = ctypes.c_void_p(values.ctypes.data), ctypes.c_long(rounds)
        operations = library.multiply_add(*arguments) * rounds
        found.append(
            torch.get_num_threads()
            * operations
            / _shortest(lambda: library.multiply_add(*arguments))
        )
    return max(found)


# enough sums at the same time that none waits for the one before; operations in a round are given
_MULTIPLY_ADD = """
extern "C" long multiply_add(real *values, long rounds) {
    vector factor = fill(values[0] / 2), term = fill(values[1]);
    // different, or the compiler sees that all are one
    vector a = fill(values[2]), b = fill(values[3]), c = fill(values[4]), d = fill(values[5]);
    vector e = fill(values[6]), f = fill(values[7]), g = fill(values[8]), h = fill(values[9]);
    vector i = fill(values[10]), j = fill(values[11]);
    for (long n = 0; n < rounds; n++) {
        a = a * factor + term; b = b * factor + term; c = c * factor + term;
        d = d * factor + term; e = e * factor + term; f = f * factor + term;
        g = g * factor + term; h = h * factor + term; i = i * factor + term;
        j = j * factor + term;
    }
    vector sum = a + b + c + d + e + f + g + h + i + j;
    memcpy(values + 2, &sum, sizeof sum);
    return 10 * 2 * LANES;
}
"""


@functools.cache
def bandwidth() -> float:
    """Bytes a second, read and written, of a copy that fits no cache."""
    source = np.zeros(2**24)
    target = np.zeros_like(source)
    return 2 * source.nbytes / _shortest(lambda: np.copyto(target, source))


def _shortest(call: Callable[[], object], times: int = 15) -> float:
    call()
    spent = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begin)
    return min(spent)


def least_seconds(operations: float, bytes_moved: float, dtype: torch.dtype) -> float:
    """The roofline: no program does so many operations on so many bytes of memory in less."""
    return max(operations / peak(dtype), bytes_moved / bandwidth())


def duration(seconds: float) -> str:
    """Three digits and a unit: 3.81 us."""
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= 0.9995 * unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-9:.3g} ns"


def ratio(peer: float, ours: float) -> str:
    """How many times faster ours is: 3.2 x."""
    value = peer / ours
    return f"{value:,.0f} x" if value >= 100 else f"{value:.3g} x"


def names(option: str, given: str | None, known: tuple[str, ...]) -> list[str]:
    """Names of an option, in a list with commas; all where it is not given."""
    chosen = list(known) if given is None else [name.strip() for name in given.split(",")]
    for name in chosen:
        if name not in known:
            raise InputError(f"{option}: '{name}' is none of {', '.join(known)}")
    return chosen


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    notes: Sequence[str] = (),
) -> None:
    """Aligned text, or compact Markdown where ``--markdown`` was given; notes go below."""
    context = click.get_current_context(silent=True)
    cells = [[str(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    # names to the left, numbers to the right
    lines = [
        [
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        for row in cells
    ]
    if context is not None and context.params.get("markdown"):
        rule = ["---", *["---:"] * (len(columns) - 1)]
        text = [f"|{'|'.join(row)}|" for row in [cells[0], rule, *cells[1:]]]
        text = [f"**{title}**", "", *text, "", *(f"- {note}" for note in notes)]
    else:
        text = [title, *("  ".join(line).rstrip() for line in lines), *notes]
    click.echo("\n".join(text).rstrip() + "\n")
