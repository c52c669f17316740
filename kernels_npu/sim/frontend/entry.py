"""`@T.prim_func` and `@T.macro`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from kernels_npu.errors import KernelSourceError, SourceLocation
from kernels_npu.sim import ir
from kernels_npu.sim.frontend import loops
from kernels_npu.sim.frontend.builder import active, building, name_once
from kernels_npu.sim.frontend.collection import collector
from kernels_npu.sim.frontend.diagnostics import at, fail
from kernels_npu.sim.frontend.evaluator import Evaluator
from kernels_npu.sim.frontend.language import debug
from kernels_npu.sim.frontend.parser import Parser
from kernels_npu.sim.frontend.scopes import VarTable
from kernels_npu.sim.frontend.source import FunctionSource, captured_names, read_source
from kernels_npu.sim.frontend.values import ScalarType, TensorBuffer, TensorSpec, describe


class PrimFuncObject:
    """A parsed kernel, as `@T.prim_func` returns it.

    Attributes:
        ir: the kernel's IR.
        source: the user's text, decorators included.
    """

    def __init__(self, func: ir.PrimFunc, source: FunctionSource) -> None:
        self.ir = func
        self.source = source.text
        self.__name__ = func.name

    @property
    def params(self) -> tuple[ir.Buffer | ir.Var, ...]:
        """Tensors and scalars in the order of the signature."""
        return self.ir.params

    def script(self) -> str:
        """The kernel after parsing, as readable text."""
        from kernels_npu.sim.ir_printer import format_func

        return format_func(self.ir)

    def __repr__(self) -> str:
        return f"<prim_func {self.__name__} at {self.ir.loc}>"

    def __call__(self, *args: object, **kwargs: object) -> Any:
        fail(
            "AI-SRC-031",
            f"the prim_func {self.__name__} is called",
            rule="a prim_func is a description; tilelang.jit or tilelang.compile makes it callable",
            fix="return it from a @tilelang.jit factory, or use tilelang.compile(func)",
            where=self.ir.loc,
        )


class Macro:
    """`@T.macro`: parsed and expanded in place at each call, with names of its own."""

    def __init__(self, fn: FunctionType, hygienic: bool) -> None:
        self._fn = fn
        self._hygienic = hygienic
        self._source = read_source(fn)
        self.__name__ = fn.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        builder = active()
        if builder is None:
            fail(
                "AI-SRC-033",
                f"the macro {self.__name__} is called outside a kernel",
                rule="a macro expands into the kernel that calls it",
                fix="call it in a @T.prim_func",
            )
        try:
            bound = inspect.signature(self._fn).bind(*args, **kwargs)
        except TypeError as exc:
            fail(
                "AI-SRC-009",
                f"{self.__name__}: {exc}",
                rule=f"the macro is {self.__name__}{_parameters(self._fn)}",
                fix="pass the macro's arguments",
            )
        bound.apply_defaults()
        parser = builder.parser
        captured = captured_names(self._fn)
        if not self._hygienic:
            captured = {**captured, **parser.names.merged()}
        names = VarTable(captured, _debugging_aids(captured))
        for name, value in bound.arguments.items():
            names.bind(name, value)
        return parser.macro_body(self._source, names)


def _parameters(fn: FunctionType) -> str:
    return "(" + ", ".join(inspect.signature(fn).parameters) + ")"


def macro(*args: Any, hygienic: bool = True) -> Any:
    """`@T.macro`, `@T.macro()` or `@T.macro(hygienic=False)`."""
    if len(args) == 1 and inspect.isfunction(args[0]):
        return Macro(args[0], hygienic)
    if args:
        fail("AI-SRC-033", f"T.macro decorates {describe(args[0])}", fix="decorate a function")
    return lambda fn: Macro(fn, hygienic)


def prim_func(
    func: FunctionType | None = None, private: bool = False, check_well_formed: bool = True
) -> Any:
    """`@T.prim_func`: parse the function into a kernel.

    Raises:
        KernelSourceError: with the user's file and line, for anything the dialect does not have.
    """
    del private, check_well_formed
    if func is None:
        decorator: Callable[[FunctionType], PrimFuncObject] = prim_func
        return decorator
    if not inspect.isfunction(func):
        fail(
            "AI-SRC-001",
            f"T.prim_func decorates {describe(func)}",
            rule="a kernel is a plain function",
            fix="put @T.prim_func directly above `def`",
        )
    source = read_source(func)
    parsed = PrimFuncObject(_parse(func, source), source)
    if (listener := collector()) is not None:
        listener.parsed(parsed)
    return parsed


def _debugging_aids(captured: Mapping[str, Any]) -> dict[str, Any]:
    """What Python's own `print` and `breakpoint` mean in a kernel, unless the module has others."""
    aids = {"print": debug.python_print, "breakpoint": debug.python_breakpoint}
    return {name: aid for name, aid in aids.items() if name not in captured}


def parse(fn: FunctionType | PrimFuncObject) -> ir.PrimFunc:
    """The IR of a kernel function, decorated or not.

    Raises:
        KernelSourceError: with the user's file and line.
    """
    return fn.ir if isinstance(fn, PrimFuncObject) else _parse(fn, read_source(fn))


def _parse(fn: FunctionType, source: FunctionSource) -> ir.PrimFunc:
    captured = captured_names(fn)
    names = VarTable(captured, {"range": loops.serial, **_debugging_aids(captured)})
    parser = Parser(source, names)
    builder = parser.builder
    with building(builder), at(source.loc):
        _declare_params(parser, fn, source)
        with names.frame():
            parser.body(source.node.body)
        return builder.finish(parser.kernel_body)


def _declare_params(parser: Parser, fn: FunctionType, source: FunctionSource) -> None:
    arguments = source.node.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
        fail(
            "AI-SRC-023",
            f"{fn.__name__} has *args, **kwargs or keyword-only parameters",
            rule="a kernel has plain parameters",
            fix="list every parameter",
        )
    for arg in arguments.args:
        loc = source.at(arg)
        with at(loc):
            annotation = _annotation(parser.eval, fn, arg.arg, arg.annotation)
            param = _param(arg.arg, annotation, loc)
            parser.builder.params.append(param)
            parser.names.bind(arg.arg, param)


def _annotation(evaluate: Evaluator, fn: FunctionType, name: str, node: Any) -> Any:
    """Python evaluated the annotation at `def`, unless annotations are strings in that module."""
    if node is None:
        fail(
            "AI-SRC-023",
            f"the parameter {name} has no annotation",
            rule="every kernel parameter is a T.Tensor or a scalar such as T.int32",
            fix=f"write `{name}: T.Tensor(shape, dtype)`",
        )
    value = fn.__annotations__.get(name)
    if not isinstance(value, str):
        return value
    try:
        return evaluate(node)
    except KernelSourceError as exc:
        if exc.code != "AI-SRC-002":
            raise
        raise KernelSourceError(
            "AI-SRC-023",
            f"the annotation of {name} is a string, and its names are not visible ({exc.what})",
            where=exc.where,
            rule="a closure captures only names that the body uses",
            fix="remove `from __future__ import annotations` from the kernel's file",
        ) from exc


def _param(name: str, annotation: Any, loc: SourceLocation) -> ir.Buffer | ir.Var:
    if isinstance(annotation, TensorSpec):
        return TensorBuffer(name, "global", annotation.shape, annotation.dtype, loc)
    if isinstance(annotation, ScalarType):
        annotation = annotation()
    if isinstance(annotation, ir.Var):
        name_once(annotation, name)
        return annotation
    fail(
        "AI-SRC-023",
        f"the parameter {name} is annotated with {describe(annotation)}",
        rule="a kernel parameter is a T.Tensor(shape, dtype) "
        "or a scalar such as T.int32, T.float32",
        fix=f"write `{name}: T.Tensor(shape, dtype)` or `{name}: T.int32`",
    )
