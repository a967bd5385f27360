"""Error and cost of one step of any maps, side by side."""

from vpintegrator.measure.steps import repeat_states, seconds_per_step, table

__all__ = ["repeat_states", "seconds_per_step", "table"]
