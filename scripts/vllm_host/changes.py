"""Everything that differs from vLLM and vllm-ascend on an Ascend host, each with its reason.

The host's files stay as they were installed: these are changes of the running process.
"""

from __future__ import annotations

import functools
import importlib.metadata
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

#: The pairs that the table was written for: vLLM and its vllm-ascend.
HOSTS = {"0.18.0": "0.18.0", "0.23.0": "0.23.0.post1"}
#: Settings of the host's `ascend_compilation_config`.
WRITTEN_WITH_TORCHAIR = (
    "enable_npugraph_ex",
    "fuse_norm_quant",
    "fuse_qknorm_rope",
    "fuse_allreduce_rms",
    "fuse_muls_add",
)
#: NPUs of a host that does not say how many: ranks of a server.
DEVICES = 8
_applied: set[str] = set()
_kept: list[Any] = []


@dataclass(frozen=True, kw_only=True)
class Change:
    """One difference. what: the name that is changed or added; hosts: the vLLM that need it."""

    what: str
    why: str
    apply: Callable[[], None]
    hosts: tuple[str, ...] = tuple(HOSTS)


def apply(changes: Sequence[Change]) -> None:
    """Make each of `changes` once in this process."""
    for change in changes:
        if change.what not in _applied:
            _applied.add(change.what)
            change.apply()


def of_host(changes: Sequence[Change], host: str) -> list[Change]:
    """Those of `changes` that the vLLM of release `host` needs."""
    return [change for change in changes if host in change.hosts]


def installed_host() -> str:
    """The release of vLLM of this environment.

    Raises:
        RuntimeError: for a pair that the table was not written for, with both versions.
    """
    found = {name: importlib.metadata.version(name) for name in ("vllm", "vllm_ascend")}
    host = found["vllm"].partition("+")[0]
    if HOSTS.get(host) != found["vllm_ascend"].partition("+")[0]:
        pairs = ", ".join(f"{vllm} with {ascend}" for vllm, ascend in HOSTS.items())
        raise RuntimeError(
            f"vllm {found['vllm']} and vllm_ascend {found['vllm_ascend']} are installed; vllm_host "
            f"is written for {pairs}: run scripts/vllm-sim again, which installs a pair"
        )
    return host


def _enable_device() -> None:
    from kernels_npu.sim import device

    device.enable(device_count=_device_count())


def _device_count() -> int:
    """As many as the host's variable names, and at least two; without it, those of one server."""
    import os

    visible = os.environ.get("ASCEND_RT_VISIBLE_DEVICES", "")
    named = [device for device in visible.split(",") if device.strip()]
    return max(2, len(named)) if named else DEVICES


def _declare_torchvision() -> None:
    import torch

    library: Any = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(library)


def _name_soc_version() -> None:
    import torch_npu
    from torch_npu.npu._backends import get_soc_version

    torch_npu.npu.get_soc_version = get_soc_version


def _make_acl() -> None:
    def memcpy(*args: object) -> NoReturn:
        raise NotImplementedError("acl.rt.memcpy is not simulated: leave sleep mode off")

    acl, runtime = types.ModuleType("acl"), types.ModuleType("acl.rt")
    acl.__path__ = []
    acl.rt, runtime.memcpy = runtime, memcpy  # type: ignore[attr-defined]
    sys.modules.update({"acl": acl, "acl.rt": runtime})


def _replace_slot_mapping() -> None:
    from vllm.v1.worker import block_table

    from vllm_host.slot_mapping import SlotMapping

    block_table._compute_slot_mapping_kernel = SlotMapping()


def _leave_patch_of_torchair_out() -> None:
    name = "vllm_ascend.patch.worker.patch_npugraph_ex_triton"
    sys.modules[name] = types.ModuleType(name)


def _wait_before_padding() -> None:
    from vllm_ascend import utils

    register = utils.register_ascend_customop

    @functools.wraps(register)
    def register_ascend_customop(*args: Any, **kwargs: Any) -> None:
        # Called once by the worker, whose modules are imported by then and not before.
        import torch
        from vllm_ascend.worker.model_runner_v1 import NPUModelRunner

        pad = NPUModelRunner._pad_query_start_loc_for_fia

        @functools.wraps(pad)
        def pad_after_the_copy(self: Any, *arguments: Any, **options: Any) -> Any:
            torch.npu.current_stream().synchronize()
            return pad(self, *arguments, **options)

        NPUModelRunner._pad_query_start_loc_for_fia = pad_after_the_copy
        register(*args, **kwargs)

    utils.register_ascend_customop = register_ascend_customop


def _decide_on_custom_kernels() -> None:
    from vllm_ascend.utils import enable_custom_op

    enable_custom_op()


def _define_custom_kernels() -> None:
    from vllm_host import custom_kernels

    custom_kernels.define()


def _leave_torchair_out() -> None:
    from vllm_ascend.platform import NPUPlatform

    update = NPUPlatform.check_and_update_config.__func__

    @functools.wraps(update)
    def check_and_update_config(cls: Any, vllm_config: Any) -> None:
        asked = vllm_config.additional_config.get("ascend_compilation_config", {})
        settings = {**dict.fromkeys(WRITTEN_WITH_TORCHAIR, False), **asked}
        vllm_config.additional_config["ascend_compilation_config"] = settings
        update(cls, vllm_config)

    NPUPlatform.check_and_update_config = classmethod(check_and_update_config)


AT_IMPORT_OF_TORCH = (
    Change(
        what="torch.ops.torchvision.nms, qnms",
        why="torchvision is installed without its extension, which loads only beside the build of "
        "torch that it was made for; the host imports torchvision and calls neither",
        apply=_declare_torchvision,
    ),
    Change(
        what="torch.npu, torch_npu",
        why="the simulated device in the place of the real one",
        apply=_enable_device,
    ),
    Change(
        what="torch_npu.npu.get_soc_version",
        why="the host pairs with torch_npu 2.10, which has it there; the simulated device "
        "follows 2.13, which keeps it in torch_npu.npu._backends",
        apply=_name_soc_version,
    ),
    Change(
        what="acl.rt.memcpy",
        why="the host imports CANN's Python module for its sleep mode, which is not simulated",
        apply=_make_acl,
    ),
)
AS_PLUGIN = (
    Change(
        what="vllm_ascend.platform.NPUPlatform.check_and_update_config",
        why="npugraph_ex and the fusion passes are written with torchair, which comes with CANN: "
        "they are off unless additional_config asks for them",
        apply=_leave_torchair_out,
    ),
    Change(
        what="vllm_ascend.patch.worker.patch_npugraph_ex_triton",
        why="changes torchair, which comes with CANN. An empty module in its place; 0.23 leaves "
        "it out by itself where there is no torchair",
        apply=_leave_patch_of_torchair_out,
        hosts=("0.18.0",),
    ),
    Change(
        what="vllm_ascend.worker.model_runner_v1.NPUModelRunner._pad_query_start_loc_for_fia",
        why="0.18 writes into page-locked memory that an asynchronous copy is still reading, which "
        "the device refuses (AI-STREAM-006), and copies it again: wait first. 0.23 copies once",
        apply=_wait_before_padding,
        hosts=("0.18.0",),
    ),
    Change(
        what="vllm.v1.worker.block_table._compute_slot_mapping_kernel",
        why="a Triton kernel, and there is no Triton for the simulated device; in torch instead",
        apply=_replace_slot_mapping,
        hosts=("0.23.0",),
    ),
    Change(
        what="torch.ops._C_ascend",
        why="the host is built without its AscendC kernels; the norm of Gemma, which has no other "
        "operator in the host, is computed in torch, and what is missing is named (AI-DEV-008)",
        apply=_define_custom_kernels,
    ),
    Change(
        what="vllm_ascend.utils.enable_custom_op()",
        why="the host is built without its AscendC kernels (COMPILE_CUSTOM_KERNELS=0). It looks "
        "for them at the first use, which may lie in code that torch.compile traces: look now",
        apply=_decide_on_custom_kernels,
    ),
)
