"""Text files from laboratories: gzip is unpacked, the encoding is found out, sizes are bounded."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from vpintegrator.errors import InputError
from vpintegrator.storage.reading import COMPRESSION, LARGEST_UNSTORED

_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # in no text, so the file is something else
_BLOCK = 1 << 20  # bytes
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@contextmanager
def open_text(path: Path, guessed: list[str]) -> Iterator[IO[str]]:
    """Open a text file, packed by gzip or not, in UTF-8, UTF-16 or Latin-1.

    Parameters
    ----------
    path
        The file.
    guessed
        List to which uncertain conclusions are appended, a sentence each.

    Raises
    ------
    InputError
        If it is no text, a damaged gzip file, or one out of proportion to what it holds. Also for
        what goes wrong in the decoding while the caller reads.
    """
    try:
        with _open_bytes(path) as file:
            encoding = _find_encoding(file, path)
        if encoding not in ("utf-8-sig", "utf-16"):
            name = "Latin-1 (Windows-1252)" if encoding == "cp1252" else encoding.upper()
            guessed.append(f"the encoding is {name}, as the file is not UTF-8")
        with (
            _open_bytes(path) as file,
            io.TextIOWrapper(file, encoding=encoding, newline="") as text,
        ):
            yield text
    except UnicodeError:
        raise InputError(f"{path} is not a text file with numbers in columns") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is damaged: it cannot be unpacked by gzip: {error}") from None


def _open_bytes(path: Path) -> gzip.GzipFile | io.BufferedReader:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if packed else path.open("rb")


def _find_encoding(file: IO[bytes] | gzip.GzipFile, path: Path) -> str:
    """Read through the file once: Latin-1 may show in its last line only."""
    most = LARGEST_UNSTORED + COMPRESSION * path.stat().st_size
    head = file.read(_BLOCK)
    known = _UTF16.get(head[:2])
    if known is None and len(head) > 1:
        zeros = [head[:256][k::2].count(0) / len(head[:256][k::2]) for k in (0, 1)]
        if max(zeros) > 0.8 and min(zeros) < 0.1:  # digits have one byte that is zero
            known = "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    decoder = codecs.getincrementaldecoder("utf-8")()
    utf8, size, block = True, 0, head
    while block:
        size += len(block)
        if size > most:
            raise InputError(
                f"{path} unpacks to more than {most:,} bytes, which is out of proportion to the "
                "file; unpack it yourself if it is sound"
            )
        if known is None and _CONTROL.search(block):
            raise InputError(f"{path} is not a text file with numbers in columns")
        if utf8 and known is None:
            try:
                decoder.decode(block)
            except UnicodeDecodeError:
                utf8 = False
        block = file.read(_BLOCK)
    if utf8 and known is None:
        try:
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            utf8 = False
    return known or ("utf-8-sig" if utf8 else "cp1252")
