"""What our own source uses of other packages, collected from its syntax tree.

A name is followed from its import, from assignments and through `getattr` with a constant. Code
that serves several devices declares the type of what it holds: `TorchNamespace` is torch.npu, and
the protocols of `graphs.device_types` are its objects. What such a name is asked for is collected
like any other use, so that the list cannot go stale.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: Packages whose contracts are checked.
ROOTS = ("torch.npu", "torch_npu", "tilelang", "vllm", "vllm_ascend")
FOLDERS = ("ascend_infer", "graphs", "profiling", "kernels_npu", "scripts/npu")
#: The simulator stands in for these packages and does not call them.
LEFT_OUT = ("kernels_npu/sim/",)
#: Declared types of `graphs.device_types`, and what they stand for on an NPU.
DECLARED = {
    "TorchNamespace": "torch.npu",
    "Graph": "torch.npu.NPUGraph",
    "Event": "torch.npu.Event",
}
#: Functions of torch.npu whose result is used further.
RESULTS = {"torch.npu.current_stream": "torch.npu.Stream"}
#: Methods that only a stream has; streams travel untyped.
STREAM_METHODS = frozenset({"wait_stream", "wait_event", "record_event", "npu_stream"})
#: What the dialect module hands on.
_DIALECT = {"T": "tilelang.language", "tilelang": "tilelang"}
#: Asked of torch.cuda only, behind a look at the device's type.
_CUDA_ONLY = ("torch.npu.CUDAGraph",)


@dataclass(frozen=True, kw_only=True)
class Use:
    """One use of a name. positional, keywords: of the call; `open`: it unpacks further arguments.

    optional: the code asks whether the name exists.
    """

    name: str
    file: str
    line: int
    call: bool = False
    positional: int = 0
    keywords: tuple[str, ...] = ()
    open: bool = False
    optional: bool = False


def collect(root: Path) -> list[Use]:
    """All uses in the packages below `root`."""
    uses = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            file = path.relative_to(root).as_posix()
            if not file.startswith(LEFT_OUT):
                uses += collect_text(path.read_text(encoding="utf-8"), file)
    return uses


def collect_text(text: str, file: str, first_line: int = 1) -> list[Use]:
    """Uses in one module, and in the programs that it holds as strings."""
    collector = _Collector(file=file, offset=first_line - 1)
    collector.visit(ast.parse(text))
    return collector.uses


@dataclass
class _Collector(ast.NodeVisitor):
    file: str
    offset: int
    names: dict[str, str] = field(default_factory=lambda: {"torch_npu": "torch_npu"})
    uses: list[Use] = field(default_factory=list)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.names[alias.asname or alias.name.partition(".")[0]] = (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            if node.module == "kernels_npu.dialect":
                name = _DIALECT.get(alias.name, name)
            self.names[alias.asname or alias.name] = name
            self._add(name, node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer = dict(self.names)
        arguments = node.args
        for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            self.names.pop(argument.arg, None)
            declared = self._declared(argument.annotation)
            if declared or argument.arg == "torch_npu":
                self.names[argument.arg] = declared or "torch_npu"
        self.generic_visit(node)
        kept = {key: value for key, value in self.names.items() if key.startswith("self.")}
        self.names = {**outer, **kept}

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        stands_for = DECLARED.get(node.name)
        if stands_for and any(ast.unparse(base) == "Protocol" for base in node.bases):
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    count = len(method.args.args) - 1
                    self._add(f"{stands_for}.{method.name}", method, call=True, positional=count)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._bind(target, self._denotes(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        denoted = self._denotes(node.value) if node.value else None
        self._bind(node.target, self._declared(node.annotation) or denoted)

    def visit_Call(self, node: ast.Call) -> None:
        name = self._denotes(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr in STREAM_METHODS:
            name = f"torch.npu.Stream.{node.func.attr}"
        if name:
            unpacks = any(isinstance(a, ast.Starred) for a in node.args)
            keywords = tuple(k.arg for k in node.keywords if k.arg)
            self._add(
                name,
                node,
                call=True,
                positional=sum(not isinstance(a, ast.Starred) for a in node.args),
                keywords=keywords,
                open=unpacks or len(keywords) < len(node.keywords),
            )
            self._visit_inner(node.func)
        else:
            asked = self._asked(node)
            if asked:
                optional = len(node.args) == 3 or ast.unparse(node.func) == "hasattr"
                self._add(asked, node, optional=optional)
            self.visit(node.func)
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            self.visit(argument)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._denotes(node)
        if name and isinstance(node.ctx, ast.Load):
            self._add(name, node)
        self._visit_inner(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """A program for a child process is source, too."""
        if isinstance(node.value, str) and "import " in node.value:
            if any(root in node.value for root in ROOTS) and "\n" in node.value:
                try:
                    inner = collect_text(node.value, self.file, node.lineno)
                except SyntaxError:
                    return  # prose
                self.uses += inner

    def _visit_inner(self, node: ast.expr) -> None:
        """What an attribute is taken from may itself hold calls: `f(x).name`."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            self.visit(node)

    def _denotes(self, node: ast.expr | None) -> str | None:
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.IfExp):
            return self._denotes(node.body) or self._denotes(node.orelse)
        if isinstance(node, ast.Attribute):
            known = self.names.get(ast.unparse(node))
            base = known or self._denotes(node.value)
            return known or (f"{base}.{node.attr}" if base else None)
        if isinstance(node, ast.Call):
            called = self._denotes(node.func)
            if called in RESULTS:
                return RESULTS[called]
            if called and called.rpartition(".")[2][:1].isupper():
                return called  # an instance is asked for the names of its class
            return self._asked(node)
        return None

    def _asked(self, node: ast.Call) -> str | None:
        """`getattr` and `hasattr` with a constant, `importlib.import_module` of one."""
        function = ast.unparse(node.func)
        texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
        constant = next((text for text in texts if isinstance(text, str)), None)
        if constant is None:
            return None
        if function == "importlib.import_module":
            return constant
        base = self._denotes(node.args[0]) if function in ("getattr", "hasattr") else None
        return f"{base}.{constant}" if base else None

    def _declared(self, annotation: ast.expr | None) -> str | None:
        if annotation is None:
            return None
        words = ast.unparse(annotation).split(" | ")
        return next((DECLARED[word] for word in words if word in DECLARED), None)

    def _bind(self, target: ast.expr, name: str | None) -> None:
        if isinstance(target, (ast.Name, ast.Attribute)):
            if name:
                self.names[ast.unparse(target)] = name
            else:
                self.names.pop(ast.unparse(target), None)

    def _add(
        self,
        name: str,
        node: ast.AST,
        *,
        call: bool = False,
        positional: int = 0,
        keywords: tuple[str, ...] = (),
        open: bool = False,
        optional: bool = False,
    ) -> None:
        if (name + ".").startswith("torch_npu.npu."):  # not the operator torch_npu.npu_rms_norm
            name = name.replace("torch_npu.npu", "torch.npu", 1)
        if root_of(name) is None or name in _CUDA_ONLY or name in ROOTS:
            return
        line = getattr(node, "lineno", 1) + self.offset
        self.uses.append(
            Use(
                name=name,
                file=self.file,
                line=line,
                call=call,
                positional=positional,
                keywords=keywords,
                open=open,
                optional=optional,
            )
        )


def root_of(name: str) -> str | None:
    """The package of `ROOTS` that `name` belongs to."""
    return next((root for root in ROOTS if name == root or name.startswith(root + ".")), None)


def by_name(uses: list[Use]) -> Iterator[tuple[str, list[Use]]]:
    """Uses grouped by name, in alphabetical order."""
    for name in sorted({use.name for use in uses}):
        yield name, [use for use in uses if use.name == name]
