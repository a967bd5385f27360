"""Damage to files, from a seed: what chance does to bytes, and what malice does to structure.

A mutation takes random numbers and the bytes of a sound file, and gives those of a damaged one.
Flipped bits seldom come far: most formats notice at once. So formats are also opened and changed
from within: a JSON value becomes another, an HDF5 attribute another type, an array another shape.
"""

from __future__ import annotations

import contextlib
import io
import json
import struct
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import h5py
import numpy as np

Mutation = Callable[[Random, bytes], bytes]
_REFUSED = (TypeError, ValueError, KeyError, OSError, RuntimeError, OverflowError)

_SIZES = (0, 1, 2, 3, 7, 255, 256, 65_535, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 10**13)
_NUMBERS = (*_SIZES, -1, -(2**31), 0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, 1e15, 10**30, 10**400)
_WORDS = (
    "",
    " ",
    "a",
    "state",
    "train",
    "vpt",
    "float64",
    "../../escaped",
    "/etc/passwd",
    "a/b",
    "[/b]",
    "[bold]",
    "$x^{",
    "\\write18{ls}",
    "\x1b[31m",
    "\0",
    "\n",
    "é" * 3,
    "\ud800",
    "nan",
    "inf",
    "1e400",
    "true",
    "[" * 2_000,
    "{" * 2_000,
    "(" * 500,
    "9" * 5_000,
    "x" * 100_000,
)


def nasty(random: Random, depth: int = 0) -> Any:
    """A value that nobody expects, JSON-serialisable."""
    kind = random.randrange(9 if depth < 2 else 6)
    if kind == 0:
        return random.choice((None, True, False))
    if kind in (1, 2):
        return random.choice(_NUMBERS)
    if kind == 3:
        return random.choice((float("nan"), float("inf"), -float("inf")))
    if kind in (4, 5):
        return random.choice(_WORDS)
    if kind == 6:
        return [nasty(random, depth + 1) for _ in range(random.choice((0, 1, 2, 5)))]
    if kind == 7:
        return {str(nasty(random, 9)): nasty(random, depth + 1) for _ in range(random.randrange(3))}
    deep: Any = nasty(random, 9)
    for _ in range(random.choice((3, 60, 900))):
        deep = [deep]
    return deep


def mutate_value(random: Random, value: Any) -> Any:
    """A JSON value with one place changed, dropped, doubled or added; text that is JSON too."""
    if isinstance(value, str) and value[:1] in ("{", "[") and random.random() < 0.8:
        try:
            return dumps(mutate_value(random, json.loads(value)))
        except (ValueError, RecursionError):
            pass
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        changed = dict(value)
        action = random.random()
        if action < 0.6:
            changed[key] = mutate_value(random, value[key])
        elif action < 0.8:
            del changed[key]
        else:
            changed[random.choice((*value, *_WORDS[:12]))] = nasty(random)
        return changed
    if isinstance(value, list) and value and random.random() < 0.9:
        place, changed = random.randrange(len(value)), list(value)
        action = random.random()
        if action < 0.6:
            changed[place] = mutate_value(random, value[place])
        elif action < 0.8:
            del changed[place]
        else:
            changed.insert(place, random.choice((nasty(random), value[place])))
        return changed
    if isinstance(value, int | float) and not isinstance(value, bool) and random.random() < 0.4:
        return random.choice((-value, value * 1e6, value + 1, value - 1, str(value), [value]))
    if isinstance(value, str) and random.random() < 0.4:
        return mutate_text(random, value.encode()).decode(errors="replace")
    return nasty(random)


def dumps(value: Any) -> str:
    """JSON, or what is left of it where nesting is too deep for Python's own writer."""
    try:
        return json.dumps(value)
    except RecursionError:
        return "[" * 10_000


def mutate_bytes(random: Random, data: bytes) -> bytes:
    """Flip, overwrite, cut, double, move or fill some bytes, a few times."""
    raw = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        if not raw:
            return bytes(random.randbytes(random.randrange(64)))
        at = random.randrange(len(raw))
        size = min(random.choice((1, 2, 4, 8, 16, 256, 4096)), len(raw) - at)
        action = random.randrange(7)
        if action == 0:
            raw[at] ^= 1 << random.randrange(8)
        elif action == 1:
            raw[at : at + size] = random.randbytes(size)
        elif action == 2:
            raw[at : at + size] = bytes([random.choice((0, 255))]) * size
        elif action == 3:
            raw[at : at + 8] = struct.pack("<Q", random.choice(_SIZES) % 2**64)
        elif action == 4:
            del raw[at : at + size]
        elif action == 5:
            raw[at:at] = raw[random.randrange(len(raw)) :][:size]
        else:
            del raw[at:]
    return bytes(raw)


_TOKENS = (
    *("0", "-1", "1e400", "1e-400", "9" * 400, "0x10", "nan", "inf", "True", "None", "1_0"),
    *("(", ")", "[", "]", "{", "}", ",", ";", "=", "==", "'", '"', '"""', "#", "\t", "\r\n"),
    *("+", "-", "*", "/", "**", "//", "%", "@", "**-1", "**1000000", "**0.5", "***", "!", "\\"),
    *("sin(", "exp(", "exp(exp(exp(", "sqrt(", "log(0)", "tan(pi/2)", "sum(", "sigmoid("),
    *(" for i in range(3)", " for i in range(10**9)", "len(q)", "q[0]", "q[-1]", "q[10**9]"),
    *("lambda: 0", "__import__('os')", "f''", "x if y else z", "a.b", "a[b:c]", "z1", "t", "pi"),
    *("\0", "\x1b[31m", "\ufeff", "é", "\ud7ff", "∞", "²"),
)


def make_expression(random: Random, depth: int = 6) -> str:
    """An expression by the grammar of the language, deep and large more often than people write."""
    kind = random.randrange(14) if depth > 0 else random.randrange(3)

    def inner() -> str:
        return make_expression(random, depth - random.choice((1, 1, 2)))

    match kind:
        case 0:
            return random.choice(("z1", "z2", "z3", "k", "I2", "I3", "n", "pi", "m[0]", "m[n - 1]"))
        case 1:
            return random.choice(("0", "1", "2", "3", "10", "0.5", "1e-3", "1e300", "2/3", "0.1"))
        case 2:
            return f"{random.choice('-+')}{random.choice(('z1', 'z2', '2', 'k'))}"
        case 3 | 4 | 5:
            return f"({inner()} {random.choice('+-*/')} {inner()})"
        case 6:
            power = random.choice(("2", "3", "-1", "-2", "0.5", "(1/3)", "12", "400", "z2", "-k"))
            return f"({inner()})**{power}"
        case 7 | 8 | 9 | 10:
            names = ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "sigmoid")
            return f"{random.choice(names)}({inner()})"
        case 11:
            index = random.choice(("a", "b", "c"))
            end = random.choice(("n", "3", "len(m)", "20", "300"))
            return f"sum({index}*{inner()} for {index} in range({end}))"
        case 12:
            return " + ".join(inner() for _ in range(random.choice((2, 5, 30))))
        case _:
            name = random.choice(("sin", "exp", "sqrt", "tanh", "log"))
            return f"{name}(" * random.choice((2, 5, 30)) + inner() + ")" * 30


def mutate_expression(random: Random, data: bytes) -> bytes:
    """An expression made anew, a damaged one, or both."""
    if random.random() < 0.5:
        data = make_expression(random).encode()
    return data if random.random() < 0.4 else mutate_text(random, data)


def mutate_text(random: Random, data: bytes) -> bytes:
    """Change words, lines and brackets of a text; now and then its bytes."""
    if random.random() < 0.1:
        return mutate_bytes(random, data)
    text = data.decode(errors="replace")
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        action = random.randrange(8)
        lines = text.splitlines(keepends=True) or [""]
        line = random.randrange(len(lines))
        at = random.randrange(len(text) + 1)
        if action == 0:
            text = text[:at] + random.choice(_TOKENS) + text[at:]
        elif action == 1:
            end = min(len(text), at + random.choice((1, 2, 5, 20)))
            text = text[:at] + random.choice((*_TOKENS, "")) + text[end:]
        elif action == 2:
            del lines[line]
            text = "".join(lines)
        elif action == 3:
            lines.insert(random.randrange(len(lines) + 1), lines[line])
            text = "".join(lines)
        elif action == 4:
            words = lines[line].replace(",", " , ").split(" ")
            words[random.randrange(len(words))] = str(random.choice((*_NUMBERS, *_TOKENS)))
            lines[line] = " ".join(words)
            text = "".join(lines)
        elif action == 5:
            part = text[at : at + random.choice((1, 3, 10))]
            text = text[:at] + part * random.choice((2, 10, 300)) + text[at:]
        elif action == 6:
            inner = text[at : at + 12]
            count = random.choice((1, 30, 120))
            text = text[:at] + "(" * count + inner + ")" * count + text[at + 12 :]
        else:
            other = random.randrange(len(lines))
            lines[line], lines[other] = lines[other], lines[line]
            text = "".join(lines)
    return text.encode(errors="surrogatepass" if random.random() < 0.5 else "replace")


def mutate_toml(random: Random, data: bytes) -> bytes:
    """Change a value of a TOML text, or its words."""
    if random.random() < 0.5:
        return mutate_text(random, data)
    table = tomllib.loads(data.decode())
    return write_toml(mutate_value(random, table)).encode(errors="replace")


def write_toml(table: Any) -> str:
    """TOML of nested dictionaries and lists, inline below the first level; not always valid."""
    if not isinstance(table, dict):
        return str(table)
    lines = [f"{_key(k)} = {_inline(v)}" for k, v in table.items() if not isinstance(v, dict)]
    for name, inner in table.items():
        if isinstance(inner, dict):
            lines += [f"[{_key(name)}]", *(f"{_key(k)} = {_inline(v)}" for k, v in inner.items())]
    return "\n".join([*lines, ""])


def _key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else dumps(name)


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        try:
            return "[" + ", ".join(map(_inline, value)) + "]"
        except RecursionError:
            return "[" * 3000
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        return repr(value)
    return dumps(value)


def mutate_safetensors(random: Random, data: bytes) -> bytes:
    """Change a value in the header of a safetensors file, or some bytes."""
    if random.random() < 0.15 or len(data) < 8:
        return mutate_bytes(random, data)
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    rest = data[8 + length :]
    if random.random() < 0.1:
        rest = mutate_bytes(random, rest)
    if random.random() < 0.8 and isinstance(header.get("__metadata__"), dict):
        changed = mutate_value(random, header["__metadata__"])
        if isinstance(changed, dict) and random.random() < 0.95:
            changed = {k: v if isinstance(v, str) else dumps(v) for k, v in changed.items()}
        header["__metadata__"] = changed
    else:
        header = mutate_value(random, header)
    text = dumps(header).encode(errors="replace")
    return struct.pack("<Q", len(text)) + text + rest


def mutate_npz(random: Random, data: bytes) -> bytes:
    """Change an array of an NPZ archive, drop or add one, or some bytes."""
    if random.random() < 0.3:
        return mutate_bytes(random, data)
    with np.load(io.BytesIO(data)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    name = random.choice(list(arrays))
    action = random.random()
    if action < 0.6:
        arrays[name] = mutate_array(random, arrays[name])
    elif action < 0.8:
        del arrays[name]
    else:
        arrays[random.choice(("state", "times", "step", "a/b", "../a"))] = nasty_array(random)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as z:
        for key, array in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, array, allow_pickle=True)
            inner = part.getvalue()
            z.writestr(
                f"{key}.npy", mutate_bytes(random, inner) if random.random() < 0.1 else inner
            )
    return out.getvalue()


def mutate_archive(random: Random, data: bytes) -> bytes:
    """Change a file of an archive according to its kind, or drop one."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(list(files))
    if random.random() < 0.1:
        del files[name]
    elif name.endswith(".json") and random.random() < 0.8:
        files[name] = dumps(mutate_value(random, json.loads(files[name]))).encode(errors="replace")
    elif name.endswith(".npz"):
        files[name] = mutate_npz(random, files[name])
    elif name.endswith(".npy"):
        files[name] = mutate_npy(random, files[name])
    else:
        files[name] = mutate_bytes(random, files[name])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for key, content in files.items():
            archive.writestr(key, content)
    return out.getvalue()


def mutate_npy(random: Random, data: bytes) -> bytes:
    """Change an NPY array, or some bytes."""
    if random.random() < 0.4:
        return mutate_bytes(random, data)
    out = io.BytesIO()
    np.lib.format.write_array(out, mutate_array(random, np.load(io.BytesIO(data))))
    return out.getvalue()


def mutate_array(random: Random, array: np.ndarray) -> np.ndarray:
    """An array of another shape or type, or with other values."""
    action = random.randrange(7)
    if action == 0 and array.size:
        flat = array.copy().reshape(-1)
        if flat.dtype.kind == "f":
            flat[random.randrange(flat.size)] = random.choice((np.nan, np.inf, 1e308, -1e-320))
        return flat.reshape(array.shape)
    if action == 1:
        return array[..., None] if random.random() < 0.5 else array.reshape(-1)
    if action == 2 and array.ndim:
        axis = random.randrange(array.ndim)
        return array.take(range(random.randrange(array.shape[axis] + 1)), axis=axis)
    if action == 3 and array.dtype.kind in "fiu":
        kind = random.choice(("f4", "f2", ">f8", "i1", "u8", "c16", "?", "S3", "U2"))
        with np.errstate(all="ignore"):
            return np.nan_to_num(array).astype(kind)
    if action == 4:
        return np.moveaxis(array, 0, -1) if array.ndim else array
    return nasty_array(random)


def nasty_array(random: Random) -> np.ndarray:
    """An array that nobody expects."""
    return random.choice(
        (
            np.empty(0),
            np.empty((0, 3)),
            np.float64(np.nan),
            np.array(3.0),
            np.array("text"),
            np.array([b"a", b"bc"]),
            np.zeros((2, 0, 3)),
            np.full((2, 3, 4), np.inf),
            np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
            np.array([1, 2, 3], dtype=complex),
            np.arange(5)[::-1],
            np.array([True, False]),
        )
    )


def mutate_hdf5(random: Random, data: bytes) -> bytes:
    """Change attributes, arrays and links of an HDF5 file, a few times, or some bytes."""
    if random.random() < 0.2:
        return mutate_bytes(random, data)
    buffer = io.BytesIO(data)
    with h5py.File(buffer, "r+") as file:
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            # h5py refuses to write some things: another file, then
            with contextlib.suppress(*_REFUSED):
                _mutate_object(random, file)
    return buffer.getvalue()


def _mutate_object(random: Random, file: h5py.File) -> None:
    names: list[str] = []
    file.visit(names.append)
    if not names:  # an earlier mutation took the last one
        return
    target = file[random.choice(["/", "/", "/", *names])]
    if len(target.attrs) and random.random() < 0.5:
        _mutate_attribute(random, target)
        return
    name = random.choice(names)
    parent, _, last = name.rpartition("/")
    group = file[parent or "/"]
    action = random.randrange(8)
    if action == 0:
        del group[last]
    elif action == 1:
        group.move(last, random.choice((last + "_", "a", "state", "time")))
    elif action == 2:
        other = random.choice(
            (h5py.SoftLink("/missing"), h5py.SoftLink(f"/{random.choice(names)}"))
        )
        _replace(group, last, other)
    elif action == 3:
        outside = h5py.ExternalLink(random.choice(("../other.h5", "/etc/passwd", "")), "/a")
        _replace(group, last, outside)
    elif action == 4 and isinstance(file[name], h5py.Dataset):
        shape = file[name].shape
        del group[last]
        external = [("/etc/passwd", 0, 8 * max(1, int(np.prod(shape))))]
        group.create_dataset(last, shape=shape, dtype="f8", external=external)
    elif action == 5:
        huge = random.choice(((2**40,), (2**20, 2**20), (10**6, 10**6, 3), (2, 3, 10**13)))
        del group[last]
        chunks = tuple(min(4, n) for n in huge)
        group.create_dataset(last, shape=huge, dtype="f8", chunks=chunks, compression="gzip")
    elif isinstance(file[name], h5py.Dataset) and _is_small(file[name]):
        values = mutate_array(random, file[name][...])
        _replace(group, last, values)
    else:
        _replace(group, last, nasty_array(random))


def _is_small(dataset: h5py.Dataset) -> bool:
    """Whether it holds numbers, and not the many that an earlier mutation promised."""
    return dataset.dtype.kind != "O" and bool(np.prod(dataset.shape, dtype=float) < 1e6)


def _replace(group: h5py.Group, name: str, value: Any) -> None:
    attributes = dict(group[name].attrs)
    del group[name]
    group[name] = value
    if isinstance(value, np.ndarray):
        for key in attributes.keys() - {"DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME"}:
            group[name].attrs[key] = attributes[key]


def _mutate_attribute(random: Random, target: h5py.HLObject) -> None:
    key = random.choice(list(target.attrs))
    value = target.attrs[key]
    action = random.random()
    if action < 0.2:
        del target.attrs[key]
    elif isinstance(value, str) and action < 0.7:
        changed = mutate_value(random, value)
        target.attrs[key] = changed if isinstance(changed, str | int | float) else dumps(changed)
    elif action < 0.85:
        value = nasty(random)
        target.attrs[key] = dumps(value) if isinstance(value, dict | list | None) else value
    else:
        target.attrs[key] = nasty_array(random)


def one_of(mutations: Sequence[Mutation]) -> Mutation:
    """Any of several mutations."""
    return lambda random, data: random.choice(mutations)(random, data)
