"""Stock servers as child processes, and what the tests let their workers do."""
