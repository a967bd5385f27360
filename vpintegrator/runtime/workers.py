"""Workers that make the shards of a large result: processes, or a cluster run by dask."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import multiprocessing
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Future,
    ProcessPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vpintegrator.arguments import whole_number
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

Task = TypeVar("Task")
Shard = TypeVar("Shard")

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_CONNECT = 10.0  # seconds until a scheduler is thought to be out of reach
_PATIENCE = 60.0  # seconds without any worker


@lru_cache(1)
def versions() -> dict[str, str]:
    """Return the versions of the software that the numbers depend on."""
    packages = {name: version(name) for name in ("vpintegrator", "numpy", "scipy", "sympy")}
    return {"machine": platform.machine(), **packages}


def differing_versions(found: dict[str, str], wanted: dict[str, str], where: str) -> str:
    """Return a sentence about a machine on which the numbers may differ."""
    name = next(name for name in wanted if found.get(name) != wanted[name])
    return (
        f"{where} has {name} {found.get(name)}, but {name} {wanted[name]} is used here: the bits "
        "of the states would depend on who computes them; install the same versions everywhere"
    )


def require_versions(wanted: dict[str, str]) -> None:
    """Make sure that this machine computes the same numbers as the one that wants them.

    Raises
    ------
    OSError
        If it has other versions.
    """
    if wanted != versions():
        raise ChildProcessError(differing_versions(versions(), wanted, platform.node()))


def check_workers(workers: Any, scheduler: object) -> int:
    """Check the number of processes; a scheduler has a number of its own.

    Raises
    ------
    InputError
        If it is none, or both are given.
    """
    workers = whole_number("workers", workers, 1)
    if scheduler is not None and workers > 1:
        raise InputError("workers are processes on this machine; a scheduler has its own")
    if workers > 1:
        check_main()
    return workers


@contextmanager
def process_pool(
    workers: int, make: Callable[[Task], Shard]
) -> Iterator[Callable[[Iterable[Task]], Iterator[Shard]]]:
    """Start processes on this machine, with one thread each.

    The processes are spawned and not forked, because forking is unsafe with threads. Each process
    waits on a pipe and ends at once when the pipe is closed, by this process or by its end.

    Parameters
    ----------
    workers
        Their number.
    make
        Function that each worker calls with a task. It must belong to a module; tasks and results
        are pickled.

    Raises
    ------
    OSError
        If one of them dies.
    """
    context = multiprocessing.get_context("spawn")
    leash, hand = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(workers, context, _start_worker, (leash,))
    try:
        with _environment(dict.fromkeys(_THREADS, "1")):
            submit = partial(_uninterrupted, executor.submit, make)
            yield partial(_collect, submit, lambda: 2 * workers)
    except BrokenProcessPool:
        raise ChildProcessError(
            "a worker process died, perhaps killed because the memory did not suffice: go on with "
            "--resume (resume=True in Python), and fewer workers"
        ) from None
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        hand.close()
        leash.close()


def check_main() -> None:
    """Raise InputError in a process that imports the main script of its parent."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise InputError(
            "a script that calls for several workers is imported by each of them: put its "
            'commands below the line  if __name__ == "__main__":'
        )


def _uninterrupted(submit: Callable[..., Future[Shard]], *arguments: Any) -> Future[Shard]:
    """Submit a task with Ctrl-C blocked, as a process that this starts inherits the mask."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        return submit(*arguments)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return submit(*arguments)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(leash: Connection) -> None:
    threading.Thread(target=_end_with, args=(leash,), daemon=True).start()


def _end_with(leash: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        leash.recv()
    os._exit(1)


@contextmanager
def cluster(
    scheduler: str | os.PathLike[str] | Client, folder: Path, make: Callable[[Task], Shard]
) -> Iterator[Callable[[Iterable[Task]], Iterator[Shard]]]:
    """Connect to the workers of a dask scheduler.

    Parameters
    ----------
    scheduler
        Its address, ``tcp://host:8786``, the file that ``dask scheduler --scheduler-file`` wrote,
        or a ``distributed.Client``.
    folder
        Folder of the shards; all workers must see it.
    make
        Function that each worker calls with a task.

    Raises
    ------
    InputError
        If dask is not installed, the scheduler cannot be reached, or its workers differ.
    OSError
        If the scheduler or all workers are lost.
    """
    if importlib.util.find_spec("distributed") is None:
        raise InputError("a scheduler needs dask: pip install 'vpintegrator[dask]'")
    import distributed
    from distributed.comm.core import CommClosedError

    given = isinstance(scheduler, distributed.Client)
    client = scheduler if isinstance(scheduler, distributed.Client) else _connect(scheduler)
    try:
        _check_workers(client, folder)
        executor = client.get_executor(pure=False)
        try:
            check = partial(_require_workers, client)
            submit = partial(executor.submit, make)
            yield partial(_collect, submit, partial(_slots, client), check=check)
        finally:
            executor.shutdown(wait=False)
    except (distributed.KilledWorker, CancelledError, CommClosedError) as error:
        kind = "its workers died" if isinstance(error, distributed.KilledWorker) else "it is gone"
        raise ConnectionError(
            f"the dask scheduler could not finish, {kind}: go on with --resume (resume=True in "
            "Python)"
        ) from None
    finally:
        if not given:
            client.close()


def _connect(scheduler: str | os.PathLike[str]) -> Client:
    import distributed
    from distributed.comm.addressing import get_address_host_port

    try:
        if Path(scheduler).is_file():
            where: dict[str, Any] = {"scheduler_file": os.fspath(scheduler)}
        else:
            get_address_host_port(str(scheduler))  # says what is wrong with it
            where = {"address": str(scheduler)}
        # the caller reports the error in one sentence
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        return distributed.Client(**where, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = "" if isinstance(error, OSError) else f" ({error})"
        raise InputError(
            f"no dask scheduler answers at {scheduler}{reason}; start one with 'dask scheduler' "
            "and workers with 'dask worker', and give the address that it prints, such as "
            "tcp://127.0.0.1:8786"
        ) from None


def _check_workers(client: Client, folder: Path) -> None:
    """Check that all workers have the same versions and see the folder."""
    _require_workers(client, 0.0)
    try:
        found = client.run(_describe, str(folder))
    except Exception as error:  # whatever keeps them from loading the package
        raise InputError(
            f"the workers of the dask scheduler cannot run vpintegrator, install it there: {error}"
        ) from None
    for address, (have, sees) in found.items():
        if have != versions():
            raise InputError(differing_versions(have, versions(), f"the dask worker {address}"))
        if not sees:
            raise InputError(
                f"the dask worker {address} does not see {folder}: choose an output on a file "
                "system that all machines share"
            )


def _describe(folder: str) -> tuple[dict[str, str], bool]:
    return versions(), Path(folder).is_dir()


def _require_workers(client: Client, waited: float) -> None:
    if client.status != "running":
        raise ConnectionError(
            "the dask scheduler is gone: go on with --resume (resume=True in Python)"
        )
    if client.nthreads():
        return
    if waited == 0.0:
        with contextlib.suppress(TimeoutError):
            client.wait_for_workers(1, timeout=_CONNECT)
            return
        raise InputError("the dask scheduler has no workers; start some with 'dask worker ADDRESS'")
    if waited > _PATIENCE:
        raise ConnectionError(
            "all workers of the dask scheduler are gone: go on with --resume (resume=True in "
            "Python)"
        )


def _slots(client: Client) -> int:
    """Return the number of tasks to submit at a time, enough for the workers present now."""
    return max(2 * sum(client.nthreads().values()), 2)


def _collect(
    submit: Callable[[Task], Future[Shard]],
    slots: Callable[[], int],
    tasks: Iterable[Task],
    check: Callable[[float], None] | None = None,
) -> Iterator[Shard]:
    """Yield shards in the order in which they are finished."""
    waiting: set[Future[Shard]] = set()
    iterator, exhausted = iter(tasks), False
    waited = 0.0
    while waiting or not exhausted:
        room = max(slots() - len(waiting), 0)
        while room and not exhausted:
            task = next(iterator, None)
            if task is None:
                exhausted = True
            else:
                waiting.add(submit(task))
                room -= 1
        done, waiting = wait(waiting, timeout=5.0, return_when=FIRST_COMPLETED)
        waited = 0.0 if done else waited + 5.0
        if check and not done:
            check(waited)
        for future in done:
            yield future.result()


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables for the processes that are started inside the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
