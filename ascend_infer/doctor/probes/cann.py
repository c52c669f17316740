"""CANN, from its files: where it is, its version, and whether set_env.sh was sourced.

`root` stands for the file system's root; tests pass another.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ascend_infer.doctor.probes.version_files import read_keys, reason

#: Where installers put it: up to CANN 8.3, and since.
_PLACES = (
    "usr/local/Ascend/ascend-toolkit/latest",
    "usr/local/Ascend/cann",
    "usr/local/Ascend/cann-*",
    "usr/local/Ascend/ascend-toolkit/[0-9]*",
)
_HOME_PLACES = ("Ascend/ascend-toolkit/latest", "Ascend/cann")
#: The library that every program needs, by which a search path is told to be CANN's.
_LIBRARY = "libascendcl.so"
#: Where in an installation it is.
_LIBRARIES = ("lib64", "runtime/lib64")
#: `runtime_running_version=[7.6.0.1.220:8.0.0]`
_RUNNING = re.compile(r"(\w+)_running_version")


def installations(
    environment: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> dict[str, Any]:
    """ASCEND_HOME_PATH and what it names, and the CANN whose libraries would be loaded."""
    home = environment.get("ASCEND_HOME_PATH") or environment.get("ASCEND_TOOLKIT_HOME") or ""
    loaded = _loaded_from(environment.get("LD_LIBRARY_PATH", ""))
    return {
        "home": home,
        "at_home": describe(Path(home)) if home else None,
        "elsewhere": [describe(path) for path in _found(environment, root)],
        "library": str(loaded) if loaded else "",
        "library_is_home": bool(home and loaded and _inside(loaded, Path(home))),
    }


def _found(environment: Mapping[str, str], root: Path) -> Iterator[Path]:
    """Installations in the usual places, each once although links lead to it."""
    home = environment.get("HOME", "")
    candidates = [path for place in _PLACES for path in sorted(root.glob(place))]
    candidates += [Path(home) / place for place in _HOME_PLACES if home]
    seen = set()
    for path in candidates:
        real = os.path.realpath(path)
        if real not in seen and os.path.isdir(path):
            seen.add(real)
            yield path


def describe(path: Path) -> dict[str, Any]:
    """Version and components of the CANN in the folder `path`."""
    found: dict[str, Any] = {
        "path": str(path),
        "readable": False,
        "version": None,
        "components": {},
        "why": "",
        "set_env": _set_env(path),
    }
    try:
        os.listdir(path)
        found["readable"] = True
        found.update(_version(path))
    except OSError as error:
        found["why"] = reason(error)
    return found


def _version(path: Path) -> dict[str, Any]:
    """From the toolkit's installation record, else from the summary, else from the runtime."""
    read: list[str] = []
    for file in sorted(path.glob("*-linux/ascend_toolkit_install.info")):
        keys = read_keys(file)
        if version := keys.get("version"):
            return {"version": version, "file": str(file), "arch": keys.get("arch", "")}
        read.append(file.name)
    for file in (path / "version.cfg", path / "version.info"):
        if file.is_file():
            components = _components(read_keys(file))
            if version := components.get("toolkit") or components.get("runtime"):
                return {"version": version, "file": str(file), "components": components}
            read.append(file.name)
    for file in (path / "runtime/version.info", path / "opp/version.info"):
        if file.is_file():
            if version := read_keys(file).get("version"):
                return {"version": version, "file": str(file)}
            read.append(str(file.relative_to(path)))
    return {"why": f"no version in {', '.join(read)}" if read else "it has no version file"}


def _components(keys: Mapping[str, str]) -> dict[str, str]:
    """Component -> release: what follows the colon of `[7.6.0.1.220:8.0.0]`."""
    return {
        match[1]: value.strip("[]").rpartition(":")[2]
        for name, value in keys.items()
        if (match := _RUNNING.fullmatch(name))
    }


def _set_env(path: Path) -> str:
    """The script that sets CANN's variables; empty when it cannot be found."""
    candidates = (path / "set_env.sh", path.parent / "set_env.sh")
    return next((str(file) for file in candidates if os.path.isfile(file)), "")


def _loaded_from(search_path: str) -> Path | None:
    """The folder from which the loader would take CANN's library."""
    for folder in filter(None, search_path.split(os.pathsep)):
        if os.path.exists(os.path.join(folder, _LIBRARY)):
            return Path(folder)
    return None


def _inside(folder: Path, home: Path) -> bool:
    """By name or by where links lead: `latest` may be one, or a folder of them."""
    names = os.path.abspath(folder), os.path.realpath(folder)
    homes = os.path.abspath(home), os.path.realpath(home)
    if any(name.startswith(place + os.sep) for name, place in zip(names, homes)):
        return True
    library = os.path.realpath(folder / _LIBRARY)
    return any(library == os.path.realpath(home / at / _LIBRARY) for at in _LIBRARIES)
