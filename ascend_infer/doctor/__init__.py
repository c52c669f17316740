"""The environment check: probes in child processes, and what their answers mean.

`diagnosis.diagnose` is the way in. Nothing is imported here: each child process imports this
package for its probe alone.
"""
