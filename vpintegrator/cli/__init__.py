"""The seven commands: each parses its options, calls one public function and prints."""

import atexit
import gc
import signal

# beside PyTorch the last collections of garbage take half a second, for memory that goes anyway
atexit.register(gc.freeze)
# the work is done: a signal that comes now has nothing left to end
atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
