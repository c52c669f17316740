"""A kernel's signature at a call: inputs, allocations, symbolic dimensions, written tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import torch

from kernels_npu.sim import ir
from kernels_npu.sim.device.errors import LaunchError
from kernels_npu.sim.device.state import current
from kernels_npu.sim.machine.arguments import evaluate
from kernels_npu.sim.machine.findings import Finding

TORCH_DTYPES: dict[str, torch.dtype] = {
    "bool": torch.bool,
    "int4": torch.int8,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int16": torch.int16,
    "uint16": torch.uint16,
    "int32": torch.int32,
    "uint32": torch.uint32,
    "int64": torch.int64,
    "uint64": torch.uint64,
    "float8_e4m3": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}

Dims = dict[int, int | float]
Shape = Callable[[Dims], tuple[int, ...]]


class LaunchPlan:
    """The calling convention of one kernel.

    names, dtypes: of the parameters, by position. tensor_positions: of all tensors. out_idx: in the
    order of the returned list. written: positions of tensors that the kernel writes. noted: what
    every launch reports about the convention itself.
    """

    def __init__(
        self,
        func: ir.PrimFunc,
        out_idx: Sequence[int],
        workspace_idx: Sequence[int],
        noted: Sequence[Finding] = (),
    ) -> None:
        self.name = func.name
        self.params = func.params
        self.names = [p.name for p in func.params]
        self.dtypes = [p.dtype for p in func.params]
        self.out_idx = tuple(out_idx)
        self.noted = noted
        allocated = {*out_idx, *workspace_idx}
        self.input_positions = [i for i in range(len(func.params)) if i not in allocated]
        self.tensor_positions = [i for i, p in enumerate(func.params) if isinstance(p, ir.Buffer)]
        self.written = _written(func) | allocated
        self._grid = func.grid
        self._symbols = self._find_symbols()
        self._allocations = [
            (i, _shape_of(p), TORCH_DTYPES[p.dtype])
            for i, p in enumerate(func.params)
            if i in allocated and isinstance(p, ir.Buffer)
        ]

    def _find_symbols(self) -> list[tuple[ir.Var, int, int]]:
        """Each symbolic dimension, with the first input and axis that is exactly that variable."""
        found: dict[int, tuple[ir.Var, int, int]] = {}
        for position in self.input_positions:
            param = self.params[position]
            if isinstance(param, ir.Buffer):
                for axis, dim in enumerate(param.shape):
                    if isinstance(dim, ir.Var):
                        found.setdefault(dim.uid, (dim, position, axis))
        return list(found.values())

    # ------------------------------------------------------------------ checks

    def check(self, args: Sequence[Any], device: str = "npu") -> tuple[list[Any], int]:
        """The arguments by parameter position, None where a call allocates, and the device index.

        `device` is the type of device that all tensors must be on.

        Raises:
            LaunchError: AI-TYPE-030 .. 034.
        """
        if len(args) < len(self.input_positions):
            wanted = ", ".join(self.names[i] for i in self.input_positions)
            raise LaunchError(
                "AI-TYPE-030",
                f"{self.name} takes {len(self.input_positions)} inputs ({wanted}), "
                f"{len(args)} were given",
                rule="inputs are the parameters that are neither outputs nor workspaces",
                fix="pass one argument per input, in order",
            )
        values: list[Any] = [None] * len(self.params)
        index = -1
        for position, value in zip(self.input_positions, args):
            if isinstance(self.params[position], ir.Buffer):
                index = self._check_tensor(position, value, device, index)
            else:
                self._check_scalar(position, value)
            values[position] = value
        return values, current.device if index < 0 else index

    def _check_tensor(self, position: int, value: Any, wanted: str, index: int) -> int:
        if not isinstance(value, torch.Tensor):
            self._wrong_kind(position, value, f"a {self.dtypes[position]} tensor")
        if value.dtype is not TORCH_DTYPES[self.dtypes[position]]:
            raise LaunchError(
                "AI-TYPE-031",
                f"{self.name}: Buffer dtype mismatch for parameter {self.names[position]}: "
                f"expected {TORCH_DTYPES[self.dtypes[position]]}, got {value.dtype}",
                rule="a kernel reads the bytes as the dtype it declares",
                fix=f"pass {self.names[position]}.to({TORCH_DTYPES[self.dtypes[position]]}) "
                "or build the kernel for the tensor's dtype",
            )
        if not value.is_contiguous():
            raise LaunchError(
                "AI-TYPE-032",
                f"{self.name}: Input tensor {self.names[position]} must be contiguous; "
                f"it has shape {tuple(value.shape)} and strides {value.stride()}",
                rule="a kernel addresses a tensor row-major from its data pointer",
                fix=f"pass {self.names[position]}.contiguous()",
            )
        device = value.device
        found = device.index or 0
        if device.type != wanted or index not in (-1, found):
            expected = wanted if index < 0 else f"{wanted}:{index}"
            raise LaunchError(
                "AI-TYPE-033",
                f"{self.name}: Buffer device mismatch for parameter {self.names[position]}: "
                f"expected {expected}, got {device}",
                rule="a kernel reaches the memory of its own device only",
                fix=f"pass {self.names[position]}.to('{expected}')",
            )
        return found

    def _check_scalar(self, position: int, value: Any) -> None:
        if isinstance(value, torch.Tensor) or not isinstance(value, (int, float)):
            self._wrong_kind(position, value, f"a Python number ({self.dtypes[position]})")
        if isinstance(value, float) and not self.dtypes[position].startswith(("float", "bfloat")):
            self._wrong_kind(position, value, f"an int ({self.dtypes[position]})")

    def _wrong_kind(self, position: int, value: Any, wanted: str) -> NoReturn:
        raise LaunchError(
            "AI-TYPE-034",
            f"{self.name}: parameter {self.names[position]} is {wanted}, got {_describe(value)}",
            rule="inputs stand in the order of the prim_func's parameters",
            fix=f"pass {wanted} for {self.names[position]}",
        )

    # ------------------------------------------------------------------ shapes

    def bind(self, values: Sequence[Any]) -> Dims:
        """Values of the symbolic dimensions and of the scalar parameters, by variable.

        Raises:
            LaunchError: AI-TYPE-035 when a tensor has too few dimensions to bind one.
        """
        dims: Dims = {}
        for var, position, axis in self._symbols:
            shape = values[position].shape
            if axis >= len(shape):
                raise LaunchError(
                    "AI-TYPE-035",
                    f"{self.name}: dimension {var.name} is axis {axis} of {self.names[position]}, "
                    f"which has shape {tuple(shape)}",
                    rule="a symbolic dimension is bound by the first input "
                    "whose shape names it alone",
                    fix="pass a tensor with as many dimensions as the kernel declares",
                )
            dims[var.uid] = shape[axis]
        for position in self.input_positions:
            param = self.params[position]
            if isinstance(param, ir.Var):
                dims[param.uid] = values[position]
        return dims

    def allocations(self, dims: Dims) -> Iterator[tuple[int, tuple[int, ...], torch.dtype]]:
        """(position, shape, dtype) of every tensor that a call allocates."""
        for position, shape, dtype in self._allocations:
            try:
                yield position, shape(dims), dtype
            except KeyError:
                raise LaunchError(
                    "AI-TYPE-035",
                    f"{self.name}: the shape of {self.names[position]} has a dimension "
                    "that no input binds",
                    rule="a symbolic dimension is bound by the first input "
                    "whose shape names it alone",
                    fix="give an input tensor that dimension, or make it a static parameter",
                ) from None

    def complete(
        self, values: Sequence[Any], allocate: Callable[[tuple[int, ...], torch.dtype], Any]
    ) -> tuple[list[Any], Any, bool]:
        """All arguments, what the call returns, and whether there is nothing to do.

        `values` as `check` gives them; `allocate` makes outputs and workspaces.

        Raises:
            LaunchError: AI-TYPE-035.
        """
        dims = self.bind(values)
        arguments = list(values)
        for position, shape, dtype in self.allocations(dims):
            arguments[position] = allocate(shape, dtype)
        outputs = [arguments[i] for i in self.out_idx]
        result = outputs[0] if len(outputs) == 1 else outputs
        return arguments, result, self.is_empty(arguments, dims)

    def execute(self, kernel: Any, args: list[Any]) -> None:
        """Run the kernel on the simulated machine now; tensors as `GmArg`."""
        # What the machine computes with torch is no operation of the user: no mode must see it.
        with torch._C._DisableTorchDispatch():
            kernel.compiled.launch(args, noted=self.noted)

    def is_empty(self, arguments: Sequence[Any], dims: Dims) -> bool:
        """Whether a launch has nothing to do: no block, or no byte to write."""
        if isinstance(self._grid, ir.Const):
            blocks: int | float = self._grid.value
        else:
            blocks = evaluate(self._grid, dims)
        if blocks <= 0:
            return True
        return all(arguments[i].numel() == 0 for i in self.written)


def _shape_of(param: ir.Buffer) -> Shape:
    if all(isinstance(d, (int, ir.Const)) for d in param.shape):
        static = tuple(int(evaluate(d, {})) for d in param.shape)
        return lambda dims: static
    return lambda dims: tuple(int(evaluate(d, dims)) for d in param.shape)


def _written(func: ir.PrimFunc) -> set[int]:
    """Positions of the tensors that some statement writes."""
    position = {p: i for i, p in enumerate(func.params) if isinstance(p, ir.Buffer)}
    found: set[int] = set()

    def add(operand: object) -> None:
        buffer = getattr(operand, "buffer", operand)
        if isinstance(buffer, ir.Buffer) and buffer in position:
            found.add(position[buffer])

    for stmt in ir.walk(func.body):
        if isinstance(stmt, ir.Store):
            add(stmt.buffer)
        elif isinstance(stmt, ir.TileOp) and stmt.op == "copy":
            add(stmt.operands[1])
        elif isinstance(stmt, ir.TileOp) and stmt.op not in ("printf", "dump_tensor"):
            add(stmt.operands[0])
    return found


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)} on {value.device}"
    return f"{value!r} ({type(value).__name__})"
