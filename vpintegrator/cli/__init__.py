"""The commands vp-gen, vp-train, vp-rollout, vp-plot and vp-export: they parse, report and call."""

import atexit
import gc
import signal

# beside PyTorch the last collections of garbage take half a second, for memory that goes anyway
atexit.register(gc.freeze)
# the work is done: a signal that comes now has nothing left to end
atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
