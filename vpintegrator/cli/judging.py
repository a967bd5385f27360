"""Comparison of a trained model with others: classical methods, and candidates by cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vpintegrator.cli.common import progress_bar, tell
from vpintegrator.cli.output import is_asked
from vpintegrator.runtime.deadline import until

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.models import Integrator
    from vpintegrator.training.performance import Performance
    from vpintegrator.training.search.cheapest import Cheapest

VERDICT_SECONDS = 10.0  # to measure the cost of classical methods, compiled once for a system


def judge(
    network: Integrator,
    data: Dataset,
    path: Path,
    cheapest: Cheapest | None,
    end: float,
    verdict: bool,
) -> None:
    """Say what other models or classical methods of the same step would do, in the file, too.

    The comparison with classical methods ends at ``end``, a value of ``time.perf_counter``.
    """
    from vpintegrator.models import save
    from vpintegrator.training.search.cheapest import KEY as CHEAPEST
    from vpintegrator.verdicts import KEY, Verdict
    from vpintegrator.verdicts import verdict as compared

    found: Verdict | None = None
    try:
        if verdict:
            with progress_bar() as bar, until(end):
                bar.add_task("comparison with classical methods", total=None)
                found = compared(network, data, seconds=VERDICT_SECONDS)
    except KeyboardInterrupt:  # the model is written
        pass
    texts = {CHEAPEST: cheapest, KEY: found}
    told = {key: each.text for key, each in texts.items() if each is not None}
    if told:
        network.metadata |= told
        save(network, path, overwrite=True)
    if cheapest is not None:
        _print("candidates", cheapest.candidates, cheapest.sentence)
    if found is not None and not is_asked("verbose"):
        tell(f"  {found.sentence}")
    elif found is not None:
        _print("one step ahead", [found.model, *found.methods], found.sentence)


def _print(heading: str, rows: Sequence[Performance], sentence: str) -> None:
    """Print a table of errors and costs."""
    from vpintegrator.plotting.tables import duration

    costs = any(math.isfinite(each.cost) for each in rows)
    width = max(len(heading), *(len(each.name) for each in rows))
    line = f"  {heading:<{width}}    error"
    tell(line + ("   cost of a step" if costs else ""))
    for each in rows:
        cost = duration(each.cost) if math.isfinite(each.cost) else "-"
        line = f"  {each.name:<{width}}  {each.error:.1e}"
        tell(line + (f"   {cost:>9}" if costs else ""))
    tell(f"  {sentence}")
