"""The commands vp-gen, vp-train, vp-rollout, vp-plot and vp-export: they parse, report and call."""

import atexit
import gc

# beside PyTorch the last collections of garbage take half a second, for memory that goes anyway
atexit.register(gc.freeze)
