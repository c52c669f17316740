"""Whether vLLM will find and load the plugin: it logs an error of the import and goes on without.

Asked in processes of their own, because what a name means depends on how a process was started:
`vllm serve` does not look into the working directory, `python -m vllm...` and `python -c` do, and a
folder called `ascend_infer` there hides the installed package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PACKAGE = "ascend-infer"
GROUP, NAME = "vllm.general_plugins", "ascend_infer"
PLATFORM_GROUP, PLATFORM = "vllm.platform_plugins", "ascend"
PLUGINS_VARIABLE = "VLLM_PLUGINS"
_FIX = "pip install -e FOLDER, that of ascend-infer, in the environment of vLLM"
_TIME_LIMIT_S = 60
#: What vLLM does with a group, up to the call; the platform is only looked for.
_PROBE = """
import importlib.metadata as metadata, json, sys
if sys.argv[1] == "command":
    sys.path[:1] = [path for path in sys.path[:1] if path]
package, group, name, platforms = sys.argv[2:]
found = {
    "plugins": [],
    "platforms": [p.name for p in metadata.entry_points(group=platforms)],
    "installed": [],
}
for package in metadata.distributions(name=package):
    found["installed"].append(f"{package.version} in {package.locate_file('')}")
for point in metadata.entry_points(group=group):
    if point.name == name:
        loaded = {"value": point.value, "error": None, "file": None}
        found["plugins"].append(loaded)
        try:
            loaded["file"] = sys.modules[point.load().__module__].__file__
        except Exception as error:
            loaded["error"] = f"{type(error).__name__}: {error}"
print("\\n" + json.dumps(found))
"""
#: How a server can be started -> what its first import path is for the probe.
_STARTS = {"vllm serve": "command", "python -m, in this folder": "folder"}


@dataclass(frozen=True, kw_only=True)
class Loading:
    """What becomes of the plugin in a process of vLLM that is started as `started`.

    file: what is loaded; None where nothing is. problems: why it does not serve. installed: each
    installation of the package that can be seen, the first of which vLLM asks for the plugin.
    """

    started: str
    file: str | None = None
    problems: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()


def loadings(environment: Mapping[str, str] = os.environ) -> list[Loading]:
    """How each kind of process loads the plugin."""
    return [_loading(started, how, environment) for started, how in _STARTS.items()]


def _loading(started: str, how: str, environment: Mapping[str, str]) -> Loading:
    found = _probe(how, environment)
    if isinstance(found, str):
        return Loading(started=started, problems=(found,))
    files = [plugin["file"] for plugin in found["plugins"] if plugin["error"] is None]
    return Loading(
        started=started,
        file=files[-1] if files else None,  # vLLM keeps the last one of a name
        problems=tuple(_problems(found, environment)),
        installed=tuple(found["installed"]),
    )


def _probe(how: str, environment: Mapping[str, str]) -> dict[str, Any] | str:
    command = [sys.executable, "-c", _PROBE, how, PACKAGE, GROUP, NAME, PLATFORM_GROUP]
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=_TIME_LIMIT_S,
            check=False,
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return f"the import of the plugin takes more than {_TIME_LIMIT_S} s"
    except (IndexError, ValueError):
        return f"the import of the plugin ends the process: {_last_line(done.stderr)}"
    return found


def _problems(found: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[str]:
    plugins = found["plugins"]
    if not plugins:
        yield f"no installed package has the entry point {NAME} of {GROUP}: {_FIX}"
    for plugin in plugins:
        if plugin["error"] is not None:
            yield f"{plugin['value']} cannot be imported: {plugin['error']}"
    if len(plugins) > 1:
        values = ", ".join(plugin["value"] for plugin in plugins)
        yield f"several packages have the entry point {NAME}: {values}"
    yield from _left_out(found["platforms"], environment.get(PLUGINS_VARIABLE))


def _left_out(platforms: list[str], allowed: str | None) -> Iterator[str]:
    """Names that the variable with which vLLM chooses its plugins has to have."""
    names = [NAME] + ([PLATFORM] if PLATFORM in platforms else [])
    for name in names:
        if allowed is not None and name not in allowed.split(","):
            yield f"{PLUGINS_VARIABLE}={allowed} leaves out {name}"


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]
