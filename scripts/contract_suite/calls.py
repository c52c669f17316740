"""What our own source uses of other packages, collected from its syntax tree.

A name is followed from its import, from assignments and through `getattr` with a constant. Code
that serves several devices declares the type of what it holds: `TorchNamespace` is torch.npu, and
the protocols of `graphs.device_types` are its objects. What such a name is asked for is collected
like any other use, so that the list cannot go stale; where such a value is handed to something
that does not declare it is collected, too.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from contract_suite.names import declared_parameter, is_device_module
from contract_suite.scopes import Scopes, imported
from contract_suite.syntax import FUNCTIONS, unpacked
from contract_suite.uses import DECLARED, ROOTS, Collection, Handover, Use, root_of

FOLDERS = (
    *("ascend_infer", "graphs", "profiling", "kernels_npu", "scripts/npu", "scripts/gpu"),
    *("docs/examples", "benchmarks"),
)
#: The simulator stands in for these packages and does not call them.
LEFT_OUT = ("kernels_npu/sim/",)
#: Methods that only a stream has; streams travel untyped.
STREAM_METHODS = frozenset({"wait_stream", "wait_event", "record_event", "npu_stream"})
#: Asked of torch.cuda only, behind a look at the device's type.
_CUDA_ONLY = ("torch.npu.CUDAGraph",)
#: How an operator of torch_npu is called beside `torch_npu` itself.
_OPERATORS = "torch.ops.npu."
_PARTIAL = ("functools.partial", "partial")
#: What only looks at a value that it is given.
_HARMLESS = frozenset({"hasattr", "getattr", "isinstance", "bool", "print", "repr", "type"})


def collect(root: Path) -> Collection:
    """All uses in the packages below `root`."""
    found = Collection()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            file = path.relative_to(root).as_posix()
            if not file.startswith(LEFT_OUT):
                collect_text(path.read_text(encoding="utf-8"), file, into=found)
    return found


def collect_text(
    text: str, file: str, first_line: int = 1, into: Collection | None = None
) -> Collection:
    """Uses in one module, and in the programs that it holds as strings."""
    collector = _Collector(file=file, offset=first_line - 1, found=into or Collection())
    collector.visit(ast.parse(text))
    return collector.found


@dataclass(kw_only=True)
class _Collector(Scopes):
    file: str
    offset: int
    found: Collection

    @contextlib.contextmanager
    def unrecorded(self) -> Iterator[None]:
        found, self.found = self.found, Collection()
        yield
        self.found = found

    def note_function(self, name: str, arguments: list[ast.arg]) -> None:
        kept = [p for p in arguments if p.arg not in ("self", "cls")]
        parameters = [(p.arg, declared_parameter(p) is not None) for p in kept]
        self.found.functions.setdefault(name, []).append(parameters)

    def note_class(self, node: ast.ClassDef) -> None:
        stands_for = DECLARED.get(node.name)
        if stands_for and any(ast.unparse(base) == "Protocol" for base in node.bases):
            for method in node.body:
                if isinstance(method, FUNCTIONS):
                    self._add_promised(stands_for, method)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        super().visit_ImportFrom(node)
        for alias in node.names:
            self._add(Use(name=imported(node, alias), file=self.file, line=node.lineno))

    def visit_Assign(self, node: ast.Assign) -> None:
        super().visit_Assign(node)
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        if any(map(is_device_module, values)):
            self._hand_over(node, None, 0)

    def visit_List(self, node: ast.List | ast.Set | ast.Tuple) -> None:
        self.generic_visit(node)
        if any(map(self.names.is_namespace, node.elts)):
            self._hand_over(node, None, 0)

    visit_Set = visit_Tuple = visit_List

    def visit_Dict(self, node: ast.Dict) -> None:
        self.generic_visit(node)
        if any(map(self.names.is_namespace, node.values)):
            self._hand_over(node, None, 0)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.visit(node.value)
            if self.names.is_namespace(node.value):
                self._hand_over(node, None, 0)

    def visit_Call(self, node: ast.Call) -> None:
        name, asked = self.names.denotes(node.func), self.names.asked(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in STREAM_METHODS:
            name = f"torch.npu.Stream.{node.func.attr}"
        if ast.unparse(node.func) in _PARTIAL and node.args:
            whole = self.names.denotes(node.args[0])
            if whole:
                rest = ast.Call(node.args[0], node.args[1:], node.keywords, lineno=node.lineno)
                self._add(replace(self._call(whole, rest), open=True))
        if asked:
            optional = len(node.args) == 3 or ast.unparse(node.func) == "hasattr"
            self._add(Use(name=asked, file=self.file, line=node.lineno, optional=optional))
        elif name:
            self._add(self._call(name, node))
            self._visit_inner(node.func)
        else:
            self.visit(node.func)
        function = ast.unparse(node.func).rpartition(".")[2]
        for position, argument in enumerate(node.args):
            self.visit(argument)
            if self.names.is_namespace(argument) and function not in _HARMLESS:
                self._hand_over(node, function, position)
        for keyword in node.keywords:
            self.visit(keyword.value)
            if self.names.is_namespace(keyword.value):
                self._hand_over(node, function, keyword.arg or "**")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self.names.denotes(node)
        if name and isinstance(node.ctx, ast.Load):
            self._add(Use(name=name, file=self.file, line=node.lineno))
        self._visit_inner(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """A program for a child process is source, too."""
        if isinstance(node.value, str) and "import " in node.value:
            if any(root in node.value for root in ROOTS) and "\n" in node.value:
                try:
                    collect_text(node.value, self.file, node.lineno, self.found)
                except SyntaxError:
                    return  # prose

    def _visit_inner(self, node: ast.expr) -> None:
        """What an attribute is taken from may itself hold calls: `f(x).name`."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            self.visit(node)

    def _call(self, name: str, node: ast.Call) -> Use:
        arguments, given = unpacked(node)
        keywords = {k.arg: k.value for k in given if k.arg}
        plain = [a for a in arguments if not isinstance(a, ast.Starred)]
        handed_on: list[tuple[int | str, ast.expr]] = [*enumerate(arguments), *keywords.items()]
        return Use(
            name=name,
            file=self.file,
            line=node.lineno,
            call=True,
            positional=len(plain),
            keywords=tuple(keywords),
            open=len(plain) < len(arguments) or len(keywords) < len(given),
            defaults=tuple(
                (place, self.defaults[value.id])
                for place, value in handed_on
                if isinstance(value, ast.Name) and value.id in self.defaults
            ),
        )

    def _add_promised(self, owner: str, method: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A protocol promises that its methods can be called with all and with few arguments."""
        parameters, defaults = method.args.args[1:], method.args.defaults
        required = len(parameters) - len(defaults)
        use = Use(name=f"{owner}.{method.name}", file=self.file, line=method.lineno, call=True)
        texts = tuple((required + i, ast.unparse(d)) for i, d in enumerate(defaults))
        self._add(replace(use, positional=len(parameters), defaults=texts))
        if defaults:
            self._add(replace(use, positional=required))

    def _hand_over(
        self, node: ast.stmt | ast.expr, function: str | None, argument: int | str
    ) -> None:
        line = node.lineno + self.offset
        handover = Handover(file=self.file, line=line, function=function, argument=argument)
        self.found.handovers.append(handover)

    def _add(self, use: Use) -> None:
        name = use.name
        if name.startswith(_OPERATORS):  # its overload is one of the operator's signatures
            name = f"torch_npu.{name.removeprefix(_OPERATORS).partition('.')[0]}"
        if (name + ".").startswith("torch_npu.npu."):  # not the operator torch_npu.npu_rms_norm
            name = name.replace("torch_npu.npu", "torch.npu", 1)
        if root_of(name) is None or name in _CUDA_ONLY or name in ROOTS:
            return
        self.found.uses.append(replace(use, name=name, line=use.line + self.offset))
