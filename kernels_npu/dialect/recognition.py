"""Constructs of TileLang's dialects in a file, found in its syntax tree; nothing is executed."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from kernels_npu.dialect import translations
from kernels_npu.dialect.installation import ADAPTER, MAINLINE, MAINLINE_ASCEND, NPUIR
from kernels_npu.dialect.names import Names, backend_of
from kernels_npu.dialect.translations import Foreign

#: A file without any of these has no kernel of TileLang; most files of an environment.
_WORDS = ("tilelang", "prim_func", "kernels_npu")
_COMPILING = ("tilelang.jit", "tilelang.lazy_jit", "tilelang.compile")


@dataclass(frozen=True, kw_only=True)
class Construct:
    """One use of a dialect.

    line: from 1. text: as people write it, such as `T.alloc_l1`. dialects: those that have it.
    adapter: what the adapter dialect has instead; empty when it has the construct itself.
    """

    line: int
    text: str
    dialects: tuple[str, ...]
    adapter: str = ""


def constructs(source: str | bytes) -> tuple[Construct, ...]:
    """The constructs by which a dialect can be told, in order of their lines.

    Empty for a file that does not import tilelang, and for text that Python cannot parse: Python's
    own message says more.
    """
    text = source if isinstance(source, str) else source.decode("latin-1")
    if not any(word in text for word in _WORDS):
        return ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python repeats them when it runs the file
            nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last for deep nesting
        return ()
    names = Names(nodes)
    if not names:
        return ()
    reader = _Reader(names)
    found = {(c.line, c.text): c for node in nodes for c in reader.look(node)}
    return tuple(found[key] for key in sorted(found))


class _Reader:
    """Looks single nodes up in the tables."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def look(self, node: ast.AST) -> Iterator[Construct]:
        """The constructs of one node, its children left out."""
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imported(node)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node)
        elif isinstance(node, ast.Name):  # after `from tilelang.language import alloc_l1`
            yield from _named(self._names.in_language(node), node.lineno)
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield from _pass_option(key.value, key.lineno, f'"{key.value}"')

    def _attribute(self, node: ast.Attribute) -> Iterator[Construct]:
        if name := self._names.in_language(node):
            yield from _named(name, node.lineno)
        elif ".PassConfigKey." in self._names.full(node):
            yield from _pass_option(node.attr, node.lineno, f"PassConfigKey.{node.attr}")

    def _call(self, node: ast.Call) -> Iterator[Construct]:
        name, line = self._names.in_language(node.func), node.lineno
        if name == "Kernel":
            yield from _kernel(node)
        elif name == "Scope":
            yield from _scope(node)
        elif name == "use_swizzle" and {"panel_size", "enable"} & {k.arg for k in node.keywords}:
            yield Construct(
                line=line,
                text="T.use_swizzle(panel_size=)",
                dialects=(MAINLINE, NPUIR),
                adapter="cid = T.use_swizzle(cid, M, N, K, block_M, block_N, off=...)",
            )
        elif self._names.full(node.func) in _COMPILING:
            yield from _options(node)
        if name in translations.KEYWORD_CALLS:
            for keyword in node.keywords:
                if keyword.arg in translations.KEYWORDS:
                    row = translations.KEYWORDS[keyword.arg]
                    yield _foreign(row, keyword.value.lineno, f"T.{name}({keyword.arg}=)")


def _foreign(row: Foreign, line: int, text: str) -> Construct:
    return Construct(line=line, text=text, dialects=row.dialects, adapter=row.adapter)


def _own(line: int, text: str, dialects: tuple[str, ...] = (ADAPTER,)) -> Construct:
    return Construct(line=line, text=text, dialects=dialects)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[Construct]:
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    else:
        modules = [f"{node.module}.{a.name}" for a in node.names if not node.level]
        modules.append(node.module or "" if not node.level else "")
    for module in modules:
        head = ".".join(module.split(".")[:3])
        if backend := backend_of(head):
            yield Construct(
                line=node.lineno,
                text=f"import {head}",
                dialects=(MAINLINE_ASCEND if backend == "ascend" else MAINLINE,),
                adapter="import tilelang.language as T",
            )


def _named(name: str, line: int) -> Iterator[Construct]:
    if name in translations.NAMES:
        yield _foreign(translations.NAMES[name], line, f"T.{name}")
    elif name.startswith(translations.NPUIR_PREFIX):
        yield _foreign(translations.NPUIR_OPERATION, line, f"T.{name}")
    elif name in translations.OWN_NAMES:
        yield _own(line, f"T.{name}", translations.OWN_NAMES[name])


def _kernel(node: ast.Call) -> Iterator[Construct]:
    keywords = {k.arg: k.value for k in node.keywords}
    if None in keywords:  # **options: unknown
        return
    is_npu = keywords.get("is_npu")
    if is_npu is not None and not (isinstance(is_npu, ast.Constant) and not is_npu.value):
        yield _own(node.lineno, "T.Kernel(is_npu=)", (ADAPTER, NPUIR))
        return
    gpu = "threads" in keywords or len(node.args) > 1
    yield Construct(
        line=node.lineno,
        text="T.Kernel(threads=)" if "threads" in keywords else "T.Kernel without is_npu=True",
        dialects=(MAINLINE,) if gpu else (MAINLINE, MAINLINE_ASCEND),
        adapter="`with T.Kernel(total_blocks, is_npu=True) as (cid, vid):` "
        "and split cid with // and %",
    )


def _scope(node: ast.Call) -> Iterator[Construct]:
    if len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
        core = str(node.args[0].value)
        if core in translations.NPUIR_SCOPES:
            row = Foreign(dialects=(NPUIR,), adapter=translations.NPUIR_SCOPES[core])
            yield _foreign(row, node.lineno, f'T.Scope("{core}")')
        elif core in ("C", "V"):
            yield _own(node.lineno, f'T.Scope("{core}")')


def _options(node: ast.Call) -> Iterator[Construct]:
    """Options of tilelang.jit and tilelang.compile."""
    for keyword in node.keywords:
        name, line = keyword.arg or "", keyword.value.lineno
        if name in translations.OPTIONS:
            yield _foreign(translations.OPTIONS[name], line, f"{name}=")
        if not (isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str)):
            continue
        text = keyword.value.value
        table = {"target": translations.TARGETS, "execution_backend": translations.BACKENDS}
        row = table.get(name, {}).get(text.partition(" ")[0])
        if row is not None:
            yield _foreign(row, line, f'{name}="{text}"')
        elif name == "target" and text in translations.OWN_TARGETS:
            yield _own(line, f'target="{text}"')


def _pass_option(name: str, line: int, text: str) -> Iterator[Construct]:
    if name in translations.PASS_OPTIONS:
        yield _foreign(translations.PASS_OPTIONS[name], line, text)
    elif name.startswith(translations.OWN_PASS_OPTION):
        yield _own(line, text)
