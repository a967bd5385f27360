"""Pool for work in parts: processes on this machine, or the workers of a dask cluster."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vpintegrator.arguments import whole_number
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

Task = TypeVar("Task")
Result = TypeVar("Result")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_CONNECT = 10.0  # seconds until a scheduler, or its workers, are thought to be out of reach


def map(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    workers: int = 1,
    scheduler: str | os.PathLike[str] | Client | None = None,
) -> Generator[Result, None, None]:
    """Yield the results of a function of each task, in the order in which they are finished.

    Parameters
    ----------
    function
        Function of a module; tasks and results are pickled.
    tasks
        Its arguments.
    workers
        Processes on this machine, with one thread each; 1 for this process alone.
    scheduler
        Address of a dask scheduler (``tcp://host:8786``), the file that ``dask scheduler
        --scheduler-file`` wrote, or a ``distributed.Client``.

    Raises
    ------
    InputError
        If there is no such scheduler, or it has no workers.
    OSError
        If the workers are lost.
    """
    if scheduler is not None:
        yield from _by_cluster(function, tasks, scheduler)
    elif workers > 1:
        yield from _by_processes(function, tasks, workers)
    else:
        for task in tasks:
            yield function(task)


def check_workers(workers: Any, scheduler: object) -> int:
    """Check the number of processes; a scheduler has a number of its own.

    Raises
    ------
    InputError
        If it is none, both are given, or a worker calls for workers.
    """
    workers = whole_number("workers", workers, 1)
    if scheduler is not None and workers > 1:
        raise InputError("workers are processes on this machine; a scheduler has its own")
    if workers > 1 and getattr(multiprocessing.current_process(), "_inheriting", False):
        raise InputError(
            "a script that calls for several workers is imported by each of them: put its "
            'commands below the line  if __name__ == "__main__":'
        )
    return workers


def _by_processes(
    function: Callable[[Task], Result], tasks: Iterable[Task], workers: int
) -> Generator[Result, None, None]:
    # spawned, because forking is unsafe with threads; each ends when the pipe is closed
    context = multiprocessing.get_context("spawn")
    leash, hand = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(workers, context, _start_worker, (leash,))
    before = {name: os.environ.pop(name) for name in _THREADS if name in os.environ}
    try:
        try:
            os.environ.update(dict.fromkeys(_THREADS, "1"))  # for the processes that begin here
            futures = [executor.submit(function, task) for task in tasks]
        finally:
            for name in _THREADS:
                del os.environ[name]
            os.environ.update(before)
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise ChildProcessError(
            "a worker process died, perhaps killed because the memory did not suffice: go on with "
            "--resume (resume=True in Python), and fewer workers"
        ) from None
    finally:
        hand.close()
        leash.close()
        executor.shutdown(wait=False, cancel_futures=True)


def _start_worker(leash: Connection) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    threading.Thread(target=_end_with, args=(leash,), daemon=True).start()


def _end_with(leash: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        leash.recv()
    os._exit(1)


def _by_cluster(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    scheduler: str | os.PathLike[str] | Client,
) -> Generator[Result, None, None]:
    try:
        import distributed
    except ImportError:
        raise InputError("a scheduler needs dask: pip install 'vpintegrator[dask]'") from None
    client = scheduler if isinstance(scheduler, distributed.Client) else _connect(scheduler)
    try:
        client.wait_for_workers(1, timeout=_CONNECT)
        futures = client.map(function, list(tasks), pure=False)
        for _, result in distributed.as_completed(futures, loop=client.loop, with_results=True):
            yield result
    except TimeoutError:
        raise InputError(
            "the dask scheduler has no workers; start some with 'dask worker ADDRESS'"
        ) from None
    except (distributed.KilledWorker, distributed.CancelledError) as error:
        raise ConnectionError(
            f"the dask cluster could not finish ({type(error).__name__}): go on with --resume "
            "(resume=True in Python)"
        ) from None
    finally:
        if client is not scheduler:
            client.close()


def _connect(scheduler: str | os.PathLike[str]) -> Client:
    import distributed
    from distributed.comm.addressing import get_address_host_port

    name = "scheduler_file" if Path(scheduler).is_file() else "address"
    try:
        if name == "address":
            get_address_host_port(str(scheduler))  # refuses what is no address at once
        return distributed.Client(**{name: str(scheduler)}, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no dask scheduler answers at {scheduler} ({type(error).__name__}); start one with "
            "'dask scheduler' and workers with 'dask worker', and give the address that it prints, "
            "such as tcp://127.0.0.1:8786"
        ) from None
