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
from dataclasses import dataclass, field, replace
from pathlib import Path

from contract_suite.names import Names, declared, declared_parameter, is_device_module
from contract_suite.syntax import FUNCTIONS, bound_names, signature_of, unpacked
from contract_suite.uses import DECLARED, ROOTS, Collection, Handover, Use, root_of

FOLDERS = (
    *("ascend_infer", "graphs", "profiling", "kernels_npu", "scripts/npu", "scripts/gpu"),
    *("docs/examples", "benchmarks"),
)
#: The simulator stands in for these packages and does not call them.
LEFT_OUT = ("kernels_npu/sim/",)
#: Methods that only a stream has; streams travel untyped.
STREAM_METHODS = frozenset({"wait_stream", "wait_event", "record_event", "npu_stream"})
#: What the dialect module hands on.
_DIALECT = {
    "T": "tilelang.language",
    "tilelang": "tilelang",
    "make_zn_layout": "tilelang.intrinsics.make_zn_layout",
}
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


@dataclass
class _Collector(ast.NodeVisitor):
    file: str
    offset: int
    found: Collection
    names: Names = field(default_factory=Names)
    #: Defaults of the parameters of the function around.
    defaults: dict[str, str] = field(default_factory=dict)
    #: What the module's names denote when all of it has run, which is when functions are called.
    late: dict[str, str] = field(default_factory=dict)

    def visit_Module(self, node: ast.Module) -> None:
        with self._unrecorded():
            self.generic_visit(node)
        self.late, self.names = self.names.known, Names()
        self.generic_visit(node)

    @contextlib.contextmanager
    def _unrecorded(self) -> Iterator[None]:
        """To learn names only."""
        found, self.found = self.found, Collection()
        yield
        self.found = found

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            self.names.known[alias.asname or top] = alias.name if alias.asname else top

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            if node.module == "kernels_npu.dialect":
                name = _DIALECT.get(alias.name, name)
            self.names.known[alias.asname or alias.name] = name
            self._add(Use(name=name, file=self.file, line=node.lineno))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer, outer_defaults, late = dict(self.names.known), self.defaults, self.late
        self.names.known = {**late, **outer}
        self.late = {}  # what hides a name in this function hides it in those inside
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.names.declare(every)
        self.defaults = {
            parameter.name: parameter.default
            for parameter in signature_of(arguments).parameters.values()
            if parameter.default is not parameter.empty
        }
        self._note_function(node.name, every)
        self.generic_visit(node)
        kept = {key: value for key, value in self.names.known.items() if key.startswith("self.")}
        self.names.known, self.defaults, self.late = {**outer, **kept}, outer_defaults, late

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for outside in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(outside)
        with self._unrecorded():  # a method may set what another one uses
            self._visit_body(node)
        self._visit_body(node)

    def _visit_body(self, node: ast.ClassDef) -> None:
        stands_for = DECLARED.get(node.name)
        if stands_for and any(ast.unparse(base) == "Protocol" for base in node.bases):
            for method in node.body:
                if isinstance(method, FUNCTIONS):
                    self._add_promised(stands_for, method)
        for statement in node.body:
            if isinstance(statement, FUNCTIONS) and statement.name == "__init__":
                self._note_function(node.name, statement.args.args[1:])
                self.visit(statement)  # first: it says what `self.x` is
        for statement in node.body:
            if not (isinstance(statement, FUNCTIONS) and statement.name == "__init__"):
                self.visit(statement)
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                for name in bound_names(statement) & self.names.known.keys():
                    self.names.known[f"self.{name}"] = self.names.known[name]

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._branches(node.body, node.orelse)

    def visit_Try(self, node: ast.Try) -> None:
        self._branches([*node.body, *node.orelse], *(handler.body for handler in node.handlers))
        for statement in node.finalbody:
            self.visit(statement)

    def _branches(self, *branches: list[ast.stmt]) -> None:
        """What a name denotes after one branch, it may denote after all of them."""
        before, after = dict(self.names.known), dict[str, str]()
        for branch in branches:
            self.names.known = dict(before)
            for statement in branch:
                self.visit(statement)
            for name, denoted in self.names.known.items():
                if root_of(after.get(name, "")) is None:
                    after[name] = denoted
        self.names.known = after

    def visit_Assign(self, node: ast.Assign) -> None:
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        is_parallel = all(isinstance(target, ast.Tuple) for target in node.targets)
        for value in values if is_parallel else [node.value]:
            self.visit(value)
        if any(map(is_device_module, values)):
            self._hand_over(node, None, 0)
        for target in node.targets:
            self.names.bind(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        self.names.bind(node.target, node.value, declared(node.annotation))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.names.bind(node.target, node.value)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self.names.bind(item.optional_vars, item.context_expr)
        for statement in node.body:
            self.visit(statement)

    visit_AsyncWith = visit_With

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._loop(node.target, node.iter)
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    visit_AsyncFor = visit_For

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self._comprehension(node.generators, node.elt)

    visit_SetComp = visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node.generators, node.key, node.value)

    def _comprehension(self, generators: list[ast.comprehension], *values: ast.expr) -> None:
        outer = dict(self.names.known)
        for generator in generators:
            self._loop(generator.target, generator.iter)
            for test in generator.ifs:
                self.visit(test)
        for value in values:
            self.visit(value)
        self.names.known = outer

    def _loop(self, target: ast.expr, over: ast.expr) -> None:
        """The target is whatever of a written list is of another package; all of it is visited."""
        elements = over.elts if isinstance(over, (ast.Tuple, ast.List, ast.Set)) else []
        for visited in elements or [over]:
            self.visit(visited)
        self.names.bind(target, next(filter(self.names.denotes, elements), None))

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

    def _note_function(self, name: str, arguments: list[ast.arg]) -> None:
        kept = [p for p in arguments if p.arg not in ("self", "cls")]
        parameters = [(p.arg, declared_parameter(p) is not None) for p in kept]
        self.found.functions.setdefault(name, []).append(parameters)

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
