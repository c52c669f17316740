"""The header of a GGUF file, read with every offset checked against the file's size.

Only the container is read here; the layout of each quantised block belongs to the library `gguf`.
A file that was cut off or overwritten gives AI-MODEL-011 with the offset, never a crash or a
request for absurd amounts of memory.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kernels_npu.errors import UsageError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
#: Metadata value types with a fixed width, by GGUF's type number.
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
#: What readers of metadata ask for, in words.
_KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_T = TypeVar("_T", str, int, float, bool)


@dataclass(frozen=True, kw_only=True)
class GgufTensor:
    """A tensor's entry: `shape` in row-major order, `offset` in bytes from the file's start."""

    name: str
    shape: tuple[int, ...]
    type_id: int
    offset: int


@dataclass(frozen=True, kw_only=True)
class GgufFile:
    """An open GGUF file; `data` stays mapped as long as this object lives."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]
    data: mmap.mmap

    def value(self, key: str, kind: type[_T]) -> _T | None:
        """The metadata under `key`, None if there is none; AI-MODEL-011 if it is not a `kind`."""
        found = self.metadata.get(key)
        if found is not None and not _is(found, kind):
            raise corrupt(self.path, f"{key} is {found!r:.60}, expected {_KINDS[kind]}")
        return found

    def array(self, key: str, kind: type[_T]) -> list[_T]:
        """The list under `key`, empty if there is none; AI-MODEL-011 unless all are a `kind`."""
        found = self.metadata.get(key)
        if found is None:
            return []
        if not isinstance(found, list) or not all(_is(item, kind) for item in found):
            raise corrupt(self.path, f"{key} is {found!r:.60}, expected a list of {_KINDS[kind]}")
        return found

    @classmethod
    def open(cls, path: Path) -> GgufFile:
        """Map `path` and read its header.

        Raises:
            UsageError: AI-MODEL-010 when the file cannot be opened, 011 when it is corrupt.
        """
        try:
            with path.open("rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise corrupt(path, "the file is empty") from error
        except OSError as error:
            raise UsageError(
                "AI-MODEL-010",
                f"cannot open {path}: {error}",
                fix="check the path of the GGUF file",
            ) from error
        cursor = _Cursor(path, data)
        metadata, entries = _read_header(cursor)
        alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not _is(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise corrupt(path, f"general.alignment is {alignment!r}, expected a power of two")
        start = -(-cursor.offset // alignment) * alignment
        tensors: dict[str, GgufTensor] = {}
        for name, shape, type_id, offset in entries:
            if name in tensors:
                raise corrupt(path, f"tensor {name!r} is listed twice")
            if offset % alignment:
                raise corrupt(
                    path, f"tensor {name!r} is at {offset}, no multiple of {alignment} bytes"
                )
            tensors[name] = GgufTensor(
                name=name, shape=shape, type_id=type_id, offset=start + offset
            )
        return cls(path=path, metadata=metadata, tensors=tensors, data=data)


def _is(value: object, kind: type) -> bool:
    """As `isinstance`, but a truth value is no number and a whole number is a number."""
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def corrupt(path: Path, what: str) -> UsageError:
    """The error for a GGUF file whose contents contradict themselves."""
    return UsageError(
        "AI-MODEL-011",
        f"{path} is not a complete GGUF file: {what}",
        rule="GGUF versions 2 and 3, little endian",
        fix="download the file again and compare its size and checksum with the source",
    )


def _read_header(
    cursor: _Cursor,
) -> tuple[dict[str, Any], list[tuple[str, tuple[int, ...], int, int]]]:
    magic = bytes(cursor.take(4))
    if magic != _MAGIC:
        raise corrupt(cursor.path, f"it starts with {magic!r}, expected {_MAGIC!r}")
    version = cursor.scalar("<I")
    if version not in _VERSIONS:
        raise corrupt(cursor.path, f"version {version}")
    tensor_count, pair_count = cursor.count(24), cursor.count(13)
    metadata: dict[str, Any] = {}
    for _ in range(pair_count):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.scalar("<I"))
    entries = []
    for _ in range(tensor_count):
        name = cursor.string()
        # Dimensions are stored fastest first; row-major is the other way round.
        dims = [cursor.scalar("<Q") for _ in range(cursor.count(8, "<I"))]
        entries.append((name, tuple(reversed(dims)), cursor.scalar("<I"), cursor.scalar("<Q")))
    return metadata, entries


class _Cursor:
    """Sequential reads that refuse to run past the end of the file."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.offset = 0
        self._view = memoryview(data)

    def take(self, size: int) -> memoryview:
        end = self.offset + size
        if end > len(self._view):
            raise corrupt(
                self.path,
                f"the header needs {size} bytes at offset {self.offset}, "
                f"the file has {len(self._view)} bytes",
            )
        taken = self._view[self.offset : end]
        self.offset = end
        return taken

    def scalar(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def count(self, smallest_item: int, layout: str = "<Q") -> int:
        """A number of items that follow; each takes at least `smallest_item` bytes of the file."""
        count = int(self.scalar(layout))
        if count * smallest_item > len(self._view) - self.offset:
            raise corrupt(
                self.path, f"it announces {count} items at offset {self.offset}, more than fit"
            )
        return count

    def string(self) -> str:
        size = self.scalar("<Q")
        start = self.offset
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise corrupt(self.path, f"the text at offset {start} is not UTF-8") from error

    def value(self, type_id: int) -> Any:
        if type_id in _SCALARS:
            return self.scalar(_SCALARS[type_id])
        if type_id == _STRING:
            return self.string()
        if type_id == _ARRAY:
            return self._array(self.scalar("<I"))
        raise corrupt(self.path, f"metadata type {type_id} at offset {self.offset} does not exist")

    def _array(self, item_type: int) -> list[Any]:
        if item_type in _SCALARS:
            code = _SCALARS[item_type][1]
            size = struct.calcsize(f"<{code}")
            count = self.count(size)
            return list(struct.unpack(f"<{count}{code}", self.take(count * size)))
        if item_type == _ARRAY:
            # Nothing that decoders need nests arrays; refusing keeps the depth bounded.
            raise corrupt(self.path, f"a nested array at offset {self.offset}")
        return [self.value(item_type) for _ in range(self.count(8))]
