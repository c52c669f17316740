"""What must hold in the host's sources for the plugin's hooks, whatever the text around it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ascend_infer.vllm_plugin import pins
from contract_suite.checks import signature_text
from contract_suite.packages import Package
from contract_suite.syntax import FUNCTIONS, signature_of

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "ascend_infer/vllm_plugin"
ATTENTION = "vllm_ascend/attention/attention_v1.py"
CUSTOM_OP = "vllm/model_executor/custom_op.py"
#: A slice of the runner's buffer, which has the buffer's address; no copy of it.
_BUFFER = re.compile(r"self\.seq_lens(\.gpu)?\[:\w+\]")
#: Methods and functions of ours that the host calls in the place of its own: ours, the host's.
OVERRIDES = (
    (f"{PLUGIN}/attention.py:Backend.get_impl_cls", f"{ATTENTION}:AscendAttentionBackend"),
    (f"{PLUGIN}/attention.py:Backend.get_builder_cls", f"{ATTENTION}:AscendAttentionBackend"),
    (f"{PLUGIN}/attention.py:MetadataBuilder.build", f"{ATTENTION}:AscendAttentionMetadataBuilder"),
    (
        f"{PLUGIN}/attention.py:MetadataBuilder.get_cudagraph_support",
        f"{ATTENTION}:AscendAttentionMetadataBuilder",
    ),
    (f"{PLUGIN}/attention.py:Impl.forward_impl", f"{ATTENTION}:AscendAttentionBackendImpl"),
    (
        f"{PLUGIN}/layers.py:_rms_norm.AscendInferRMSNorm.forward_oot",
        "vllm_ascend/ops/layernorm.py:AscendRMSNorm",
    ),
    (
        f"{PLUGIN}/layers.py:_rotary.AscendInferRotaryEmbedding.forward_oot",
        "vllm_ascend/ops/rotary_embedding.py:AscendRotaryEmbedding",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One of them. found: what the sources have instead, empty where it holds."""

    what: str
    found: str = ""


Check = Callable[[Package], str]


def facts(package: Package, name: str) -> list[Fact]:
    """The facts about the package `name`, "vllm_ascend" or "vllm"; none about any other."""
    table = {"vllm_ascend": _OF_ASCEND, "vllm": _OF_VLLM}.get(name, {})
    return [Fact(what=what, found=check(package)) for what, check in table.items()]


def _backend_is_named(package: Package) -> str:
    what = "vllm_ascend/platform.py:NPUPlatform.get_attn_backend_cls"
    function = _function(package, what)
    if function is None:
        return f"{what} is not there"
    named = "vllm_ascend.attention.attention_v1.AscendAttentionBackend"
    if named not in _strings(function):
        return "it names " + (", ".join(sorted(_strings(function))) or "nothing")
    decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
    return "" if decorators == ["classmethod"] else f"it is decorated with {decorators}"


def _block_of_128(package: Package) -> str:
    what = f"{ATTENTION}:AscendAttentionBackend.get_supported_kernel_block_sizes"
    function = _function(package, what)
    if function is None:
        return f"{what} is not there"
    returns = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    returned = [ast.unparse(value) for value in returns if value is not None]
    return "" if returned == ["[128]"] else f"it returns {', '.join(returned)}"


def _table_is_filled(package: Package) -> str:
    what = "vllm_ascend/utils.py:register_ascend_customop"
    function = _function(package, what)
    if function is None:
        return f"{what} is not there"
    first, *others = signature_of(function.args).parameters.values()
    if first.name != "vllm_config" or any(p.default is p.empty for p in others):
        return f"it takes {signature_text(signature_of(function.args))}"
    if "CustomOp.register_oot" not in _calls(function):
        return "it calls " + ", ".join(dict.fromkeys(_calls(function)))
    missing = {"RMSNorm", "RotaryEmbedding"} - _strings(function)
    return f"it does not register {', '.join(sorted(missing))}" if missing else ""


def _worker_fills_it_last(package: Package) -> str:
    file = "vllm_ascend/worker/worker.py"
    function = _function(package, f"{file}:NPUWorker.__init__")
    if function is None:
        return f"{file}:NPUWorker.__init__ is not there"
    order = ["adapt_patch", "register_ascend_customop"]
    found = [name for name in _calls(function) if name in order]
    imported = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "vllm_ascend.utils"
        and order[1] in {alias.asname or alias.name for alias in node.names}
        for node in ast.walk(ast.parse(package.text(file) or ""))
    )
    if not imported:
        return f"{file} does not import {order[1]} from vllm_ascend.utils"
    return "" if found == order else f"it calls {', '.join(found) or 'neither'}"


def _lengths_are_the_runners(package: Package) -> str:
    file = "vllm_ascend/worker/model_runner_v1.py"
    text = package.text(file)
    if text is None:
        return f"{file} is not there"
    given = [
        ast.unparse(keyword.value)
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "AscendCommonAttentionMetadata"
        for keyword in call.keywords
        if keyword.arg == "seq_lens"
    ]
    if given and all(_BUFFER.fullmatch(text) for text in given):
        return ""
    return f"they are {', '.join(given) or 'given nowhere'}"


def _operators_are_there(package: Package) -> str:
    ours = [file.read_text(encoding="utf-8") for file in (ROOT / PLUGIN).glob("*.py")]
    called = {name for text in ours for name in re.findall(r"torch\.ops\.vllm\.(\w+)", text)}
    theirs = [package.text(file) or "" for file in package.files("vllm_ascend/ops/")]
    named = {name for text in theirs for name in re.findall(r"op_name=\"(\w+)\"", text)}
    missing = sorted(called - named)
    return f"it does not register {', '.join(missing)}" if missing else ""


def _attributes_are_kept(package: Package) -> str:
    host = pins.definition_node(package.text(ATTENTION) or "", "AscendAttentionBackendImpl")
    if host is None:
        return "AscendAttentionBackendImpl is not there"
    missing = sorted(_read_by_ours() - _attributes(host, "self", ast.Store) - _methods(host))
    return f"it does not keep {', '.join(missing)}" if missing else ""


def _read_by_ours() -> set[str]:
    """What our implementation, and the choice whether it serves, read of the host's."""
    texts = [file.read_text(encoding="utf-8") for file in sorted((ROOT / PLUGIN).glob("*.py"))]
    reasons = [node for text in texts if (node := pins.definition_node(text, "attention_reason"))]
    ours = pins.definition_node((ROOT / PLUGIN / "attention.py").read_text("utf-8"), "Impl")
    assert ours is not None and reasons
    read = _attributes(ours, "self", ast.Load).union(
        *(_attributes(reason, "impl", ast.Load) for reason in reasons)
    )
    return read - _attributes(ours, "self", ast.Store) - _methods(ours)


def _attributes(node: ast.AST, owner: str, use: type[ast.expr_context]) -> set[str]:
    return {
        n.attr
        for n in ast.walk(node)
        if isinstance(n, ast.Attribute)
        and isinstance(n.ctx, use)
        and isinstance(n.value, ast.Name)
        and n.value.id == owner
    }


def _methods(node: ast.AST) -> set[str]:
    return {n.name for n in ast.walk(node) if isinstance(n, FUNCTIONS)}


def _is_called_as(ours: str, host: str) -> Check:
    def check(package: Package) -> str:
        theirs = _function(package, host)
        if theirs is None:
            return f"{host.rpartition('/')[2]} is not there"
        file, _, name = ours.partition(":")
        mine = pins.definition_node((ROOT / file).read_text(encoding="utf-8"), name)
        assert isinstance(mine, FUNCTIONS), ours
        have, want = (signature_of(f.args).parameters.values() for f in (mine, theirs))
        same = [(p.name, p.kind, p.default) for p in have] == [
            (p.name, p.kind, p.default) for p in want
        ]
        return "" if same else f"the host's takes {signature_text(signature_of(theirs.args))}"

    return check


def _names_are_unique(package: Package) -> str:
    function = _function(package, f"{CUSTOM_OP}:CustomOp.register_oot")
    if function is None:
        return "CustomOp.register_oot is not there"
    asserted = [ast.unparse(node) for node in ast.walk(function) if isinstance(node, ast.Assert)]
    says = [text for text in asserted if "Duplicate op name" in text]
    return "" if says else f"it asserts {asserted or 'nothing'}"


def _table_is_read_at_construction(package: Package) -> str:
    function = _function(package, f"{CUSTOM_OP}:CustomOp.__new__")
    if function is None:
        return "CustomOp.__new__ is not there"
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    return "" if "op_registry_oot" in names else f"it reads {', '.join(sorted(names))}"


def _plugins_come_before_the_worker(package: Package) -> str:
    what = "vllm/v1/worker/worker_base.py:WorkerWrapperBase.init_worker"
    function = _function(package, what)
    if function is None:
        return f"{what} is not there"
    order = ["load_general_plugins", "resolve_obj_by_qualname"]
    found = [name for name in dict.fromkeys(_calls(function)) if name in order]
    return "" if found == order else f"it calls {', '.join(found) or 'neither'}"


_OF_ASCEND: dict[str, Check] = {
    "NPUPlatform.get_attn_backend_cls names AscendAttentionBackend": _backend_is_named,
    "the kernel's blocks have 128 tokens": _block_of_128,
    "register_ascend_customop(vllm_config) fills vLLM's table": _table_is_filled,
    "the worker calls it after the host's patches": _worker_fills_it_last,
    "the operators of the host that ours call are registered": _operators_are_there,
    "AscendAttentionBackendImpl keeps what ours reads": _attributes_are_kept,
    "seq_lens of the metadata is the model runner's own buffer": _lengths_are_the_runners,
} | {
    f"{host.rpartition(':')[2]}.{ours.rpartition('.')[2]} is called as ours": _is_called_as(
        ours, f"{host}.{ours.rpartition('.')[2]}"
    )
    for ours, host in OVERRIDES
}
_OF_VLLM: dict[str, Check] = {
    "register_oot refuses a name that is taken": _names_are_unique,
    "an operator is looked up when it is built": _table_is_read_at_construction,
    "general plugins are loaded before the worker's class": _plugins_come_before_the_worker,
}


def _function(package: Package, what: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    file, _, name = what.partition(":")
    found = pins.definition_node(package.text(file) or "", name)
    return found if isinstance(found, FUNCTIONS) else None


def _strings(node: ast.AST) -> set[str]:
    constants = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
    return {value for value in constants if isinstance(value, str)}


def _calls(node: ast.AST) -> list[str]:
    """What is called, in the order of the lines."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    calls.sort(key=lambda n: (n.lineno, n.col_offset))
    return [ast.unparse(call.func) for call in calls]
