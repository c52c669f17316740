"""Deleted synchronisation: is every flag and barrier of a kernel either missed or redundant?

Each textual flag pair, half of one, barrier and cross-core flag of a kernel is deleted in turn, and
the kernel runs again on the arguments of a recorded launch. The deletion is `found` by a check
or a wrong value, or it is `redundant` by an argument from the happens-before graph, or it is a
`survivor`: a hole in the checks.
"""
