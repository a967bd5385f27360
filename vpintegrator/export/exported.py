"""Result of an export."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Exported:
    """A file that was written.

    Attributes
    ----------
    path, to
        Path and format of the file; the format is ``"c"``, ``"onnx"`` or ``"torch"``.
    verified
        Whether what it computes was compared with PyTorch.
    note
        Why it was not.
    details
        Further numbers. For C, the numbers of ``operations`` and ``functions`` (such as tanh) in a
        step.
    """

    path: Path
    to: str
    verified: bool
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)
