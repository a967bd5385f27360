"""Processes, threads, devices, interruptions and progress of long computations."""
