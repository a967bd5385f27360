"""Search for files that a reader fails on, guided by the coverage of this package's code.

    pip install atheris        # Linux, CPython
    python scripts/fuzz/guided.py expressions -max_total_time=600
    python scripts/fuzz/guided.py models corpus-of-my-own/ -runs=100000

Options after the reader are libFuzzer's. What fails is left as ``crash-...`` in the current folder:
mend the reader, and move the file to scripts/fuzz/corpus/READER/.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from random import Random

try:
    import atheris
except ImportError:
    sys.exit("guided.py needs atheris: pip install atheris")

with atheris.instrument_imports(include=["vpintegrator"]):
    import readers
    import run

    import vpintegrator.cli.common
    import vpintegrator.data
    import vpintegrator.dynamics
    import vpintegrator.models
    import vpintegrator.rollout
    import vpintegrator.training  # noqa: F401


def main() -> None:
    """Start libFuzzer with the reader's sound samples and its own mutations."""
    if len(sys.argv) < 2 or sys.argv[1] not in readers.READERS:
        sys.exit(f"usage: guided.py READER [libFuzzer's options]; {', '.join(readers.READERS)}")
    name = sys.argv.pop(1)
    reader = readers.READERS[name]
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    run.make_samples(reader, folder)
    (folder / "work").mkdir()
    path = folder / "work" / f"case{reader.suffix}"

    def one(data: bytes) -> None:
        path.write_bytes(data)
        signal.signal(signal.SIGALRM, run.interrupt)
        outcome = run.run_case(reader, path, 0)
        if outcome.failed:
            raise AssertionError(f"{outcome.what}\n{outcome.detail}")

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        try:
            return reader.mutate(Random(seed), data)[:most]
        except Exception:  # the data is no longer of the kind that the mutation takes apart
            return atheris.Mutate(data, most)

    atheris.Setup([*sys.argv, str(folder / "samples")], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
