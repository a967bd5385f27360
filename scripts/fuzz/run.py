"""Damaged files for every reader: each must be read or refused in a sentence, at once.

    python scripts/fuzz/run.py datasets models --count 10000
    python scripts/fuzz/run.py all --count 100000 --processes 2 --keep failures/
    python scripts/fuzz/run.py models --seed 4711 --count 1 --show

A case is a reader and a seed, and the same everywhere. It fails if it ends in an exception other
than InputError, needs more than a second of the processor or a GiB of memory, hangs, or ends the
process. What failed is listed by its place in the code, with a seed that shows it again.

Files that once failed are kept in scripts/fuzz/corpus/READER/, and tests/scripts/test_fuzz.py reads
them, and some new ones of every reader, whenever the tests run. ``guided.py`` searches by coverage.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import contextlib
import faulthandler
import io
import multiprocessing
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from random import Random
from types import FrameType

import click
import readers

from vpintegrator.cli.common import SETTINGS, console, plain_errors, progress_bar
from vpintegrator.errors import InputError

SECONDS = 1.0  # of the processor
MEMORY = 1 << 30  # bytes, beside what the program itself takes
HANGING = 20  # seconds by the clock, after which nobody waits any longer
READ, REFUSED = "read", "refused"
CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Outcome:
    """How a case ended: read, refused, or what went wrong and where."""

    seed: int
    what: str
    seconds: float = 0.0
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether this is a defect."""
        return self.what not in (READ, REFUSED)


class Hanging(BaseException):
    """Raised in the middle of a case that takes too long, whatever it catches."""


def make_samples(reader: readers.Reader, folder: Path) -> list[Path]:
    """Sound files in ``folder/samples``."""
    (folder / "samples").mkdir()
    (folder / "made").mkdir()
    for path in reader.samples(folder / "made"):
        path.rename(folder / "samples" / path.name)
    return sorted((folder / "samples").iterdir())


def make_case(reader: readers.Reader, name: str, samples: list[Path], seed: int) -> bytes:
    """The damaged file of a seed."""
    random = Random(f"{name} {seed}")
    return reader.mutate(random, random.choice(samples).read_bytes())


def run_case(reader: readers.Reader, path: Path, seed: int, most: float = SECONDS) -> Outcome:
    """Read one file, which may take so many seconds of the processor."""
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_REAL, HANGING)
    detail = ""
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            reader.read(path)
        what = READ
    except InputError as error:
        what, detail = REFUSED, str(error)
        # one sentence: neither empty, nor a dump, nor what a terminal would obey
        if not detail.strip() or len(detail) > 3000 or not detail.isprintable():
            what = f"unfit message: {detail[:120]!r}"
    except Hanging:
        what, detail = f"hangs for {HANGING} s", traceback.format_exc()
    except BaseException as error:
        what, detail = f"{type(error).__name__} at {_place(error)}", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    seconds = time.process_time() - begin
    if seconds > most and what in (READ, REFUSED):
        what, detail = f"takes more than {most:g} s", f"{what} in {seconds:.2f} s\n{detail}"
    return Outcome(seed, what, seconds, detail)


def _place(error: BaseException) -> str:
    """The last line of the package, and of whatever it called."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "vpintegrator" in f.filename and "fuzz" not in f.filename]
    shown = [*ours[-1:], *(frames[-1:] if frames[-1:] != ours[-1:] else [])]
    return " > ".join(f"{Path(f.filename).name}:{f.lineno}" for f in shown)


def work(name: str, seeds: range, folder: str, pipe: Connection) -> None:
    """Run cases in a process of their own, telling how each begins and ends."""
    # where a process was that crashed, or that hung where Python does not come to interrupt it
    stack = (Path(folder) / f"stack-{os.getpid()}").open("w", encoding="utf-8")
    faulthandler.enable(stack)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, interrupt)
    reader = readers.READERS[name]
    samples = sorted(Path(folder).glob("samples/*"))
    own = Path(tempfile.mkdtemp(dir=folder))
    path = own / f"case{reader.suffix}"
    warm_up(reader, samples, path)
    _limit_memory()
    for seed in seeds:
        pipe.send(seed)
        path.write_bytes(make_case(reader, name, samples, seed))
        faulthandler.dump_traceback_later(2 * HANGING, file=stack)
        outcome = run_case(reader, path, seed)
        faulthandler.cancel_dump_traceback_later()
        pipe.send(outcome)
        for left in own.iterdir():
            if left.is_file():
                left.unlink()
    pipe.send(None)


def warm_up(reader: readers.Reader, samples: list[Path], path: Path) -> None:
    """Read every sound sample, so that no case pays for imports."""
    for sample in samples:
        path.write_bytes(sample.read_bytes())
        reader.read(path)


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def interrupt(number: int, frame: FrameType | None) -> None:
    """End a case that hangs."""
    raise Hanging


def outcomes(name: str, seeds: range, folder: Path) -> Iterator[Outcome]:
    """How the cases of some seeds end; a process that dies is replaced."""
    context = multiprocessing.get_context("spawn")
    while len(seeds):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(name, seeds, str(folder), theirs), daemon=True)
        process.start()
        theirs.close()
        current: int | None = None
        try:
            while True:
                if not ours.poll(3 * HANGING + (120 if current is None else 0)):
                    raise EOFError
                said = ours.recv()
                if said is None:
                    return
                if isinstance(said, Outcome):
                    yield said
                else:
                    current = said
        except EOFError:
            process.kill()
            process.join()
            if current is None:
                raise InputError(f"{name}: the sound samples cannot be read") from None
            stack = folder / f"stack-{process.pid}"
            detail = stack.read_text(encoding="utf-8") if stack.exists() else ""
            yield Outcome(current, f"the process ends (exit code {process.exitcode})", 0.0, detail)
            seeds = range(current + seeds.step, seeds.stop, seeds.step)
        finally:
            process.kill()
            ours.close()


def run_reader(
    name: str, seeds: range, keep: Path | None, processes: int, advance: Callable[[], None]
) -> tuple[Counter[str], dict[str, Outcome]]:
    """All cases of a reader: how many ended how, and the first of each failure."""
    reader = readers.READERS[name]
    ended: Counter[str] = Counter()
    examples: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as made, ThreadPoolExecutor(processes) as pool:
        folder = Path(made)
        samples = make_samples(reader, folder)
        queue: SimpleQueue[Outcome | None] = SimpleQueue()

        def share(part: range) -> None:
            try:
                for outcome in outcomes(name, part, folder):
                    queue.put(outcome)
            finally:
                queue.put(None)

        parts = [pool.submit(share, seeds[k::processes]) for k in range(processes)]
        for outcome in chain.from_iterable(iter(queue.get, None) for _ in parts):
            ended[outcome.what] += 1
            advance()
            if outcome.failed and outcome.what not in examples:
                examples[outcome.what] = outcome
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    data = make_case(reader, name, samples, outcome.seed)
                    (keep / f"{name}-{outcome.seed}{reader.suffix}").write_bytes(data)
        for part in parts:
            part.result()
    return ended, examples


@click.command(context_settings=SETTINGS)
@click.argument("names", nargs=-1, required=True, metavar="READER...|all")
@click.option("--count", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first.")
@click.option("--processes", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="Folder for files that failed.")
@click.option("--show", is_flag=True, help="Print tracebacks and messages.")
@plain_errors
def main(
    names: tuple[str, ...], count: int, seed: int, processes: int, keep: Path | None, show: bool
) -> None:
    """Give damaged files to readers; exit code 1 if any ends otherwise than it should."""
    chosen = list(readers.READERS) if "all" in names else list(names)
    unknown = [name for name in chosen if name not in readers.READERS]
    if unknown:
        raise InputError(f"there is no reader {unknown[0]}; there are {', '.join(readers.READERS)}")
    out = console()
    failures = 0
    for name in chosen:
        begin = time.perf_counter()
        with progress_bar() as bar:
            task = bar.add_task(name, total=count)
            ended, examples = run_reader(
                name, range(seed, seed + count), keep, processes, partial(bar.advance, task)
            )
        failed = sum(ended.values()) - ended[READ] - ended[REFUSED]
        failures += failed
        rate = count / (time.perf_counter() - begin)
        out.print(
            f"{name}: {count:,} files, {ended[READ]:,} read, {ended[REFUSED]:,} refused, "
            f"{failed:,} failed ({rate:.0f} a second)",
            soft_wrap=True,
            markup=False,
        )
        for what, example in examples.items():
            out.print(
                f"  {ended[what]:6,} x {what}  (--seed {example.seed})",
                soft_wrap=True,
                markup=False,
            )
            if show:
                out.print(example.detail, soft_wrap=True, markup=False)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
