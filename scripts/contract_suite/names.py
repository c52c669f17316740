"""What the names of our source denote in other packages, while a module is walked through."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from contract_suite.uses import DECLARED

#: Functions whose result is used further, and what it is on an NPU.
RESULTS = {
    "torch.get_device_module": "torch.npu",
    "torch.npu.current_stream": "torch.npu.Stream",
}
#: Functions that return the module of a constant name.
_IMPORTS = ("importlib.import_module", "import_module", "__import__", "sys.modules.get")
_NAMESPACES = ("torch.npu", "torch_npu.npu", "torch_npu")


@dataclass(kw_only=True)
class Names:
    """Dotted names by our own, `self.x` included; of a name called torch_npu it is that."""

    known: dict[str, str] = field(default_factory=lambda: {"torch_npu": "torch_npu"})

    def declare(self, arguments: Iterable[ast.arg]) -> None:
        """The parameters of a function hide what was known under their names."""
        for argument in arguments:
            self.known.pop(argument.arg, None)
            declared = declared_parameter(argument)
            if declared:
                self.known[argument.arg] = declared

    def bind(self, target: ast.expr, value: ast.expr | None, declared: str | None = None) -> None:
        """An assignment; of one tuple to another, of element to element."""
        if isinstance(target, ast.Tuple):
            values: list[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, ast.Tuple) and len(value.elts) == len(values):
                values = list(value.elts)
            for element, part in zip(target.elts, values):
                self.bind(element, part)
        elif isinstance(target, (ast.Name, ast.Attribute)):
            denoted = declared or self.denotes(value)
            if denoted:
                self.known[ast.unparse(target)] = denoted
            elif isinstance(target, ast.Name):
                self.known.pop(target.id, None)  # an attribute may still be it at other times

    def denotes(self, node: ast.expr | None) -> str | None:
        """The dotted name that an expression is, `torch.npu.graph`."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.IfExp):
            return self.denotes(node.body) or self.denotes(node.orelse)
        if isinstance(node, ast.BoolOp):
            return next(filter(None, map(self.denotes, node.values)), None)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
            module = node.slice.value if isinstance(node.slice, ast.Constant) else None
            return module if isinstance(module, str) else None
        if isinstance(node, ast.Attribute):
            known = self.known.get(ast.unparse(node))
            if known is None and is_device_module(node.value):
                return f"torch.npu.{node.attr}"
            base = known or self.denotes(node.value)
            return known or (f"{base}.{node.attr}" if base else None)
        if isinstance(node, ast.Call):
            called = self.denotes(node.func) or ast.unparse(node.func)
            if called in RESULTS:
                return RESULTS[called]
            if self.denotes(node.func) and called.rpartition(".")[2][:1].isupper():
                return called  # an instance is asked for the names of its class
            return self.asked(node)
        return None

    def asked(self, node: ast.Call) -> str | None:
        """`getattr` and `hasattr` with a constant, `importlib.import_module` of one."""
        function = ast.unparse(node.func)
        texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
        constant = next((text for text in texts if isinstance(text, str)), None)
        if constant is None:
            return None
        if function in _IMPORTS:
            return constant
        base = self.denotes(node.args[0]) if function in ("getattr", "hasattr") else None
        return f"{base}.{constant}" if base else None

    def is_namespace(self, node: ast.expr) -> bool:
        """Whether the value is a whole module of the device, all of whose names may be used."""
        return is_device_module(node) or self.denotes(node) in _NAMESPACES


def declared(annotation: ast.expr | None) -> str | None:
    """What a declared type stands for on an NPU."""
    if annotation is None:
        return None
    words = ast.unparse(annotation).split(" | ")
    return next((DECLARED[word] for word in words if word in DECLARED), None)


def declared_parameter(parameter: ast.arg) -> str | None:
    """The same of a parameter; one called torch_npu is that, unless its type is another one."""
    annotation = parameter.annotation and ast.unparse(parameter.annotation)
    if parameter.arg == "torch_npu" and annotation in (None, "Any", "ModuleType"):
        return "torch_npu"
    return declared(parameter.annotation)


def is_device_module(node: ast.expr) -> bool:
    """`getattr(torch, kind)`: some device's module, unless an annotation says otherwise."""
    if isinstance(node, ast.IfExp):
        return is_device_module(node.body) or is_device_module(node.orelse)
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "getattr"
        and ast.unparse(node.args[0]) == "torch"
        and not isinstance(node.args[1], ast.Constant)
    )
