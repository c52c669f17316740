"""Small packages in the forms that an index serves."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

GRAPHS = """\
__all__ = ["graph", "NPUGraph"]
__all__ += ["limited"]
from torch_npu import _C

class NPUGraph(_C._NPUGraph):
    pool_size: int = 3
    def __init__(self): ...
    def replay(self): ...
    def keep(self, tensors=None): ...
    @property
    def stream(self): ...

class graph:
    def __init__(self, npu_graph, pool=None, stream=None, auto_dispatch_capture=False,
                 capture_error_mode="global"): ...

def limited(x, /, y=3, *rest, z, w="a", **more): ...
def hidden(): ...
"""
FILES: dict[str, str | bytes] = {
    "torch_npu/__init__.py": "__all__ = ['erase']\nfrom .npu import utils\ndef erase(): ...\n",
    "torch_npu/utils/__init__.py": "",
    "torch_npu/utils/exposed_api.py": "public_npu_functions = ['npu_norm']\n",
    "torch_npu/npu/__init__.py": "__all__ = ['graph', 'NPUGraph', 'limited', 'stream']\n"
    "from .graphs import *\nfrom .utils import _stream as stream, sleep\n"
    "if True:\n    from .graphs import hidden\nelse:\n    hidden = None\n",
    "torch_npu/npu/graphs.py": GRAPHS,
    "torch_npu/npu/utils.py": "def _stream(stream=None): ...\nsleep = _sleep = _stream\n",
    "torch_npu/_C.cpython-311-x86_64-linux-gnu.so": b"\x7fELF\0_raw\0reset\0_NPUGraph\0",
    "torch_npu/lib/libtorch_npu.so": b"\x7fELF\0npu_norm(Tensor x, int[2] k=[1, 2], *, float "
    b"eps=1e-06, Tensor? out=None) -> Tensor\0npu::npu_norm.two(Tensor x, Tensor y) -> Tensor\0"
    b"npu_hidden(Tensor x) -> ()\0npu_text(see the manual) -> it\0",
}


def wheel(folder: Path, files: Mapping[str, str | bytes] = FILES, version: str = "9.1") -> Path:
    """Write a wheel of torch_npu."""
    path = folder / f"torch_npu-{version}-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def sdist(folder: Path, files: Mapping[str, str], name: str = "vllm_ascend-0.1.tar.gz") -> Path:
    """Write a source distribution."""
    path = folder / name
    with tarfile.open(path, "w:gz") as archive:
        for member, text in files.items():
            entry = tarfile.TarInfo(f"{name.removesuffix('.tar.gz')}/{member}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path
