"""What runs in the child processes: one module per subject, each answer a JSON-ready dict.

Modules import nothing heavy at their top: the import itself is what may fail.
"""
