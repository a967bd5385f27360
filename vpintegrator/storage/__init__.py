"""Files: written whole or not at all, locked, resumed, and read as data that strangers made."""
