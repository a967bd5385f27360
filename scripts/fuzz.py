"""Damage files at random, and read them.

    python scripts/fuzz.py all --count 200
    python scripts/fuzz.py dataset --count 10000 --seed 1 --keep failures/

A file is read as it is, or refused in an ``InputError`` of one printable line. Another exception,
or more than two seconds of the processor, is a failure; ``--keep`` stores the file. Files are read
in a process of their own: a library may search a damaged file for ever, and no signal reaches it.
Another kind of file is one more entry of ``KINDS``.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import re
import struct
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import click
import h5py
import numpy as np
import torch

import vpintegrator as vp
from vpintegrator.errors import InputError

PATIENCE = 2.0  # seconds of the processor for a file
_HANGING = 15.0  # seconds after which the process is ended
_STARTING = 120.0  # seconds until the process reads
_NASTY: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**63, 10**400, 1e308, float("nan"), "", "a" * 5000, "\x1b[2J", "1/0"),
    *("9**9**9", "q[0]", "import os", "../../etc/passwd", [], {}, [[[]]], {"a": {"b": []}}),
)
_ARRAYS = (
    *(np.empty(0), np.empty((0, 3)), np.float64(np.nan), np.array("text"), np.zeros((2, 0, 3))),
    *(np.full((2, 3, 4), np.inf), np.array([1, 2], dtype=complex), np.array([True, False])),
    np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
)
# signatures of structures of HDF5: heaps (the global one holds texts of variable length) and others
_STRUCTURES = (
    rb"GCOL|HEAP|FRHP|FHDB|FHIB|TREE|SNOD|OHDR|OCHK|BTHD|BTLF|BTIN|SMTB|FADB|FAHD|EAHD|EADB"
)
_TOKENS = (
    "[",
    "]",
    "{",
    "}",
    '"',
    "=",
    "(",
    ")",
    "**",
    "/0",
    "sum(",
    "1e999",
    "\x00",
    "é",
    "#",
    "\n",
)


def damage_bytes(random: Random, data: bytes) -> bytes:
    """Change, cut or repeat some bytes."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 3, 20))):
        at = random.randrange(len(found) + 1)
        action = random.randrange(4)
        if action == 0 and at < len(found):
            found[at] ^= 1 << random.randrange(8)
        elif action == 1:
            del found[at : at + random.choice((1, 8, 512))]
        elif action == 2:
            found[at:at] = random.randbytes(random.choice((1, 8, 512)))
        else:
            found = found[: max(at, 1)] if random.random() < 0.2 else found
    return bytes(found)


def damage_text(random: Random, data: bytes) -> bytes:
    """Change the lines and words of a text."""
    lines = data.decode().splitlines(keepends=True)
    for _ in range(random.choice((1, 1, 2, 4))):
        n = random.randrange(len(lines))
        action = random.randrange(5)
        if action == 0:
            del lines[n]
        elif action == 1:
            lines.insert(random.randrange(len(lines) + 1), lines[n])
        elif action == 2:
            at = random.randrange(len(lines[n]) + 1)
            lines[n] = lines[n][:at] + random.choice(_TOKENS) + lines[n][at:]
        elif action == 3:
            words = lines[n].split(" ")
            words[random.randrange(len(words))] = str(random.choice(_NASTY))
            lines[n] = " ".join(words)
        else:
            at = random.randrange(len(lines[n]) + 1)
            lines[n] = lines[n][:at] + "(" * random.choice((1, 50, 3000)) + lines[n][at:]
        lines = lines or ["\n"]
    return "".join(lines).encode(errors="replace")


def damage_value(random: Random, value: Any) -> Any:
    """Change a value somewhere in nested dictionaries, lists and JSON texts."""
    if isinstance(value, str) and value[:1] in ("{", "[") and random.random() < 0.8:
        return json.dumps(damage_value(random, json.loads(value)))
    if isinstance(value, dict | list) and value and random.random() < 0.9:
        key = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
        copy: Any = value.copy()
        if random.random() < 0.2:
            del copy[key]
        else:
            copy[key] = damage_value(random, copy[key])
        return copy
    return random.choice(_NASTY)


def damage_safetensors(random: Random, data: bytes) -> bytes:
    """Change a value of the header, or some bytes."""
    if random.random() < 0.2:
        return damage_bytes(random, data)
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    if random.random() < 0.7:
        key = random.choice(list(header["__metadata__"]))
        value = damage_value(random, header["__metadata__"][key])
        header["__metadata__"][key] = value if isinstance(value, str) else json.dumps(value)
    else:
        header = damage_value(random, header)
    text = json.dumps(header).encode(errors="replace")
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def damage_structure(random: Random, data: bytes) -> bytes:
    """Overwrite some bytes of a structure of HDF5: of a heap, a tree, a header or an index."""
    found = bytearray(data)
    places = [match.start() for match in re.finditer(_STRUCTURES, data)]
    for _ in range(random.choice((1, 2, 4, 8))):
        at = random.choice(places) + random.randrange(4, 600)
        size = random.choice((1, 2, 4, 8))
        value = random.choice((bytes(size), b"\xff" * size, b"\x01" * size, random.randbytes(size)))
        found[at : at + size] = value[: max(len(found) - at, 0)]
    return bytes(found)


def damage_hdf5(random: Random, data: bytes) -> bytes:
    """Change attributes, arrays and links, or some bytes."""
    chance = random.random()
    if chance < 0.5:
        return damage_structure(random, data) if chance < 0.3 else damage_bytes(random, data)
    buffer = io.BytesIO(data)
    with h5py.File(buffer, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        name = random.choice(names)
        target = file if random.random() < 0.5 else file[name]
        try:
            if len(target.attrs) and random.random() < 0.6:
                key = random.choice(list(target.attrs))
                value = damage_value(random, target.attrs[key])
                plain = isinstance(value, str | int | float)
                target.attrs[key] = value if plain else json.dumps(value)
            else:
                del file[name]
                links = h5py.SoftLink("/missing"), h5py.ExternalLink("/etc/passwd", "/a")
                if random.random() < 0.8:
                    file[name] = random.choice((*links, *_ARRAYS))
        except (OSError, OverflowError, TypeError, ValueError):  # h5py writes no such thing
            pass
    return buffer.getvalue()


@dataclass(frozen=True)
class Kind:
    """Ending of a kind of file, and functions that write a sound one, damage it and read it."""

    suffix: str
    write: Callable[[Path], Any]
    damage: Callable[[Random, bytes], bytes]
    read: Callable[[Path], Any]


def _write_dataset(path: Path) -> None:
    vp.generate("rigid-body", path, count=6, steps=4, overwrite=True)


def _read_dataset(path: Path) -> None:
    dataset = vp.open_dataset(path)
    for group in dataset.shapes:
        dataset.states(group)


def _write_model(path: Path) -> None:
    system = vp.load_system("rigid-body")
    model = vp.models.build(system, "vpff", {"functions": "polynomial", "degree": 2, "depth": 1})
    model.origin = vp.models.Origin(system, 0.2)
    vp.save(model, path, overwrite=True)


def _read_model(path: Path) -> None:
    model = vp.load(path)
    model(torch.zeros(1, model.window, model.dim, dtype=model.scale.dtype))


def _write_rollout(path: Path) -> None:
    report = vp.compare(None, ["rk4"], system="pendulum", steps=5, trajectories=2)
    report.save(path, overwrite=True)


def _read_rollout(path: Path) -> None:
    report = vp.open_rollout(path)
    for name in report.runs:
        report.summary(name)


def _import(path: Path) -> None:
    vp.import_dataset(path, path.with_suffix(".out.h5"), step=0.1, overwrite=True)


def _write_system(path: Path) -> None:
    path.write_text(vp.load_system("henon-heiles").text)


def _write_recipe(path: Path) -> None:
    path.write_text(vp.load_recipe("rigid-body").text)


def _write_arrays(path: Path) -> None:
    np.savez(path, state=_STATES)


def _write_hdf5(path: Path) -> None:
    with h5py.File(path, "w", track_order=True) as file:
        file["state"], file["time"] = _STATES, 0.1 * np.arange(_STATES.shape[1])
        file["state"].attrs.update({"units": "1", "scale_factor": 2.0, "long_name": "state"})


def _write_table(path: Path) -> None:
    rows = (f"{0.1 * i:.1f},{q},{p}\n" for i, (q, p) in enumerate(_STATES[0]))
    path.write_text("t,q,p\n" + "".join(rows))


_STATES = np.random.default_rng(0).normal(size=(8, 6, 2))
KINDS = {
    "dataset": Kind(".h5", _write_dataset, damage_hdf5, _read_dataset),
    "model": Kind(".safetensors", _write_model, damage_safetensors, _read_model),
    "rollout": Kind(".h5", _write_rollout, damage_hdf5, _read_rollout),
    "system": Kind(".toml", _write_system, damage_text, vp.load_system),
    "recipe": Kind(".toml", _write_recipe, damage_text, vp.load_recipe),
    "arrays": Kind(".npz", _write_arrays, damage_bytes, _import),
    "hdf5": Kind(".h5", _write_hdf5, damage_hdf5, _import),
    "table": Kind(".csv", _write_table, damage_text, _import),
}


def outcome(read: Callable[[Path], Any], path: Path) -> str:
    """Return ``read`` or ``refused``, or a failure with its traceback."""
    begin = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(path)
        result = "read"
    except InputError as error:
        text = str(error)
        sound = text.strip() and len(text) < 3000 and text.isprintable()
        result = "refused" if sound else f"unfit message: {text[:200]!r}"
    except Exception:
        return traceback.format_exc()
    seconds = time.process_time() - begin
    return result if seconds <= PATIENCE else f"slow: it takes {seconds:.1f} s"


def _unchecked(path: Path) -> None:
    """Read the attributes of a file without any check, to try the watch over readers."""
    with h5py.File(path) as file:
        dict(file.attrs)


def _read_all(name: str, paths: Sequence[Path], outcomes: Connection) -> None:
    """Send the outcome of each file to another process, after a word that says ready."""
    outcomes.send("ready")
    for path in paths:
        outcomes.send(outcome(KINDS[name].read if name in KINDS else _unchecked, path))


def outcomes_of(name: str, paths: Sequence[Path]) -> Iterator[str]:
    """Yield the outcome of each file, read in a process that is ended where one takes for ever."""
    context, done = multiprocessing.get_context("spawn"), 0
    while done < len(paths):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_read_all, args=(name, paths[done:], there))
        process.start()
        there.close()
        try:
            if here.poll(_STARTING):
                here.recv()
            while done < len(paths):
                sound = here.poll(_HANGING)
                done += 1
                if not sound:
                    yield f"hanging: it takes more than {_HANGING:.0f} s"
                    break
                try:
                    yield here.recv()
                except EOFError:
                    process.join()
                    yield f"crash: the process ends with exit code {process.exitcode}"
                    break
        finally:
            process.kill()
            process.join()


def run(name: str, count: int, seed: int, folder: Path) -> list[tuple[Path, str]]:
    """Damage and read files of a kind; return the outcome of each."""
    kind = KINDS[name]
    sound, paths = folder / f"sound{kind.suffix}", []
    kind.write(sound)
    kind.read(sound)
    data = sound.read_bytes()
    for number in range(seed, seed + count):
        path = folder / f"{name}-{number}{kind.suffix}"
        path.write_bytes(kind.damage(Random(f"{name} {number}"), data))
        paths.append(path)
    found = list(zip(paths, outcomes_of(name, paths), strict=True))
    for path, text in found:
        if text in ("read", "refused"):
            path.unlink()
    return found


@click.command()
@click.argument("names", nargs=-1, required=True, metavar=f"all|{'|'.join(KINDS)}...")
@click.option("--count", default=200, show_default=True, help="Files of each kind.")
@click.option("--seed", default=0, show_default=True, help="Number of the first file.")
@click.option("--keep", type=click.Path(path_type=Path), help="Folder for files that fail.")
def main(names: tuple[str, ...], count: int, seed: int, keep: Path | None) -> None:
    """Damage files of some kinds, and read them; exit code 1 if one fails."""
    failed = 0
    for name in KINDS if "all" in names else names:
        with tempfile.TemporaryDirectory() as folder:
            outcomes = run(name, count, seed, Path(folder))
            failures = [(path, text) for path, text in outcomes if "\n" in text or ":" in text]
            counts = Counter(text for _, text in outcomes if text in ("read", "refused"))
            told = ", ".join(f"{counts[word]} {word}" for word in ("read", "refused"))
            click.echo(f"{name}: {count} files, {told}, {len(failures)} failed")
            for path, text in failures:
                click.echo(f"{path.name}: {text}")
                if keep is not None:
                    keep.mkdir(exist_ok=True)
                    (keep / path.name).write_bytes(path.read_bytes())
            failed += len(failures)
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
