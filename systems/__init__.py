"""The catalogue of systems: one TOML file each, read by :func:`vpintegrator.load_system`."""
