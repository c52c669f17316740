"""What an operation's schema says about how to run it on the device."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from kernels_npu.sim.device import host_calls

_has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key


class Kind(enum.Enum):
    """How the device runs an operation."""

    FUNCTIONAL = enum.auto()
    INPLACE = enum.auto()
    OUT = enum.auto()
    FACTORY = enum.auto()
    VIEW = enum.auto()


@dataclass(frozen=True, kw_only=True)
class OpInfo:
    """An operation and the parts of its schema that matter.

    written: positions or names of the arguments that it writes. outputs: names of keyword-only
    written arguments (`out`). generator: its schema takes one. random: it draws random numbers.
    waits: its result has a shape or value that the host must know, so it synchronises.
    host_indices: it takes index tensors from the host too, and copies them.
    """

    op: Any
    name: str
    kind: Kind
    written: tuple[int, ...]
    outputs: tuple[str, ...]
    generator: bool
    random: bool
    waits: bool
    host_indices: bool

    @property
    def host_call(self) -> Callable[..., Any]:
        """What runs the operation on host tensors."""
        return host_calls.host_call(self.op)


#: Composite operations that return their input or a piece of it without saying so in the schema.
_SILENT_ALIASES = (
    "_unsafe_view",
    "unsafe_split",
    "lift",
    "data",
    "_reshape_from",
    "requires_grad_",
)
#: These decompose into `empty` and `empty_strided`, which poison the memory.
_ALLOCATING = ("empty_like", "new_empty", "empty_permuted")
#: Handled by hand, or meaningless on a device of this kind.
_EXCLUDED = (
    "record_stream",
    "is_pinned",
    "pin_memory",
    "_pin_memory",
    "_backward",
    "set_data",
    "_version",
    "is_same_size",
    "is_set_to",
    "sym_",
    "_make_dep_token",
    "_has_same_storage_numel",
    "_cudnn",
    "_mps",
    "miopen",
    "cudnn",
    "_sparse",
    "_to_sparse",
    "sparse",
    "_nested",
    "_wrapped",
    "mkldnn",
    "to_mkldnn",
    "_mkldnn",
    "quantize",
    "q_",
    "_make_per",
    "_coalesced",
    "dense_dim",
    "resize_as_sparse",
    "_functional_",
    "_resize_output",
    "_efficientzerotensor",
    "_dimI",
    "_dimV",
    "_nnz",
    "_print",
    "_is_zerotensor",
)
_INDEXING = frozenset({"index", "index_put", "index_put_", "_index_put_impl_"})
_DATA_DEPENDENT = (
    torch.Tag.dynamic_output_shape,
    torch.Tag.data_dependent_output,
)
#: Look at values on the host, which their tags do not say.
_READ_BY_HOST = frozenset({"_linalg_check_errors"})


def leaf_operations() -> Iterator[OpInfo]:
    """Every aten operation that does not decompose into others by itself."""
    for qualified in torch._C._dispatch_get_all_op_names():
        if not qualified.startswith("aten::"):
            continue
        packet, _, overload = qualified[6:].partition(".")
        if packet.startswith((*_EXCLUDED, *_SILENT_ALIASES, *_ALLOCATING)):
            continue
        if _has_kernel(qualified, "CompositeImplicitAutograd"):
            continue
        if not any(
            _has_kernel(qualified, key)
            for key in (
                "CPU",
                "CompositeExplicitAutograd",
                "CompositeExplicitAutogradNonFunctional",
            )
        ):
            continue
        info = analyse(getattr(getattr(torch.ops.aten, packet), overload or "default"), qualified)
        if info is not None:
            yield info


def analyse(op: Any, qualified: str) -> OpInfo | None:
    """Classify `op`; None when PyTorch's own composite kernel does the right thing."""
    if torch.Tag.inplace_view in op.tags:
        return None
    info = describe(op, qualified)
    if info.kind is Kind.VIEW and not _has_kernel(qualified, "CPU"):
        return None
    return info


def describe(op: Any, qualified: str) -> OpInfo:
    """The parts of the schema of `op` that matter here."""
    schema = op._schema
    arguments = schema.arguments
    written = [i for i, a in enumerate(arguments) if a.alias_info and a.alias_info.is_write]
    view = any(r.alias_info and not r.alias_info.is_write for r in schema.returns)
    outputs = tuple(arguments[i].name for i in written if arguments[i].kwarg_only)
    tensors = any("Tensor" in str(a.type) for a in arguments)
    if view:
        kind = Kind.VIEW
    elif outputs:
        kind = Kind.OUT
    elif written:
        kind = Kind.INPLACE
    elif not tensors:
        kind = Kind.FACTORY
    else:
        kind = Kind.FUNCTIONAL
    generator = any(a.name == "generator" for a in arguments)
    return OpInfo(
        op=op,
        name=qualified[6:],
        kind=kind,
        written=tuple(i for i in written if not arguments[i].kwarg_only),
        outputs=outputs,
        generator=generator,
        random=generator or torch.Tag.nondeterministic_seeded in op.tags,
        waits=packet_name(op) in _READ_BY_HOST
        or (any(tag in op.tags for tag in _DATA_DEPENDENT) and packet_name(op) != "index"),
        host_indices=packet_name(op) in _INDEXING,
    )


def packet_name(op: Any) -> str:
    """`add` for `aten.add.Tensor`."""
    name: str = op._schema.name
    return name.partition("::")[2]


#: Keyword arguments of factories that an `out=` overload leaves to the tensor it is given.
_CARRIED_BY_OUT = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format"})


#: Operations beside the elementwise ones whose `out=` kernels write what they are given and nothing
#: else. Others compute in their output (losses with a reduction do), want other dtypes for it than
#: they say (statistics of norms), or copy at the end.
_WRITE_DIRECTLY = frozenset({"mm", "addmm", "bmm", "baddbmm", "cat", "_softmax", "gather"})


def out_overload(op: Any) -> tuple[Any, tuple[str, ...]] | None:
    """The overload of `op` that writes into given tensors, and their argument names.

    The tensors have the right shape. None when no overload can be relied on.
    """
    if torch.Tag.pointwise not in op.tags and packet_name(op) not in _WRITE_DIRECTLY:
        return None
    wanted = {a.name: str(a.type) for a in op._schema.arguments}
    order = [a.name for a in op._schema.arguments if not a.kwarg_only]
    packet = getattr(torch.ops.aten, packet_name(op))
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        arguments = candidate._schema.arguments
        outputs = tuple(a.name for a in arguments if a.alias_info and a.alias_info.is_write)
        if len(outputs) != len(op._schema.returns) or not outputs:
            continue
        if not all(a.kwarg_only for a in arguments if a.name in outputs):
            continue
        given = {a.name: str(a.type) for a in arguments if a.name not in outputs}
        if any(wanted.get(name) != kind for name, kind in given.items()):
            continue
        if (wanted.keys() - given.keys()) - _CARRIED_BY_OUT:
            continue
        if [a.name for a in arguments if not a.kwarg_only] != order:
            continue
        return candidate, outputs
    return None
