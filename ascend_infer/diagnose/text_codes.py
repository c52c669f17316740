"""Codes with letters: those of CANN's components, and torch_npu's own."""

from __future__ import annotations

from ascend_infer.diagnose.codes import Explanation, Role
from ascend_infer.diagnose.fixes import ARGUMENT, EVENTS, FIRST, MEMORY, MODELS, NOTIFIES, STREAMS

_CANN = "hicann/runtime src/dfx/error_manager/error_code.json"
_TORCH_NPU = "torch_npu/utils/_error_code.py"
_C, _F, _S = Role.CAUSE, Role.FOLLOWER, Role.SYMPTOM
_OPERATORS = "install the operator package of the chip"
_ROWS: tuple[tuple[str, str, str, Role], ...] = (
    ("EE2002", "an environment variable has a wrong value", "correct the named variable", _C),
    ("EE9999", "an inner error of the runtime", FIRST, _S),
    ("EL0003", "the driver got a bad argument", ARGUMENT, _C),
    ("EL0004", "the driver ran out of memory", MEMORY, _C),
    ("EL0005", "the device is busy", "end other processes of the device", _C),
    ("EL0008", "events ran out", EVENTS, _C),
    ("EL0009", "streams ran out", STREAMS, _C),
    ("EL0010", "notifies ran out", NOTIFIES, _C),
    ("EL0011", "models ran out", MODELS, _C),
    ("EL0012", "a queue is full", "synchronise now and then outside capture", _C),
    ("EZ3002", "the operator is not supported", _OPERATORS, _C),
    ("EZ3003", "the operator is not supported", _OPERATORS, _C),
    ("EZ9903", "an operator's runtime call failed", FIRST, _S),
    ("EZ9999", "an inner error of an operator", "read the text of the line", _F),
)
TEXT_CODES = {
    key: Explanation(key=key, meaning=meaning, fix=fix, role=role, source=_CANN)
    for key, meaning, fix, role in _ROWS
}
_FAMILY_ROWS: tuple[tuple[str, str, str, Role, str], ...] = (
    ("EE", "a runtime argument or resource", ARGUMENT, _C, _CANN),
    ("EL", "the driver", ARGUMENT, _C, _CANN),
    ("EZ", "shape, attribute or dtype of an operator", "correct the operator's arguments", _C,
     _CANN),
    ("EH", "misuse of the ACL API", ARGUMENT, _C, _CANN),
    ("EI", "communication (HCCL)", "compare the ranks' first errors and the network", _C, _CANN),
    ("EJ", "communication (HCCP)", "look at the network devices and their ports", _C, _CANN),
    ("EK", "profiling or dump", "configure it before the capture", _C, _CANN),
    ("EP", "profiling or dump", "configure it before the capture", _C, _CANN),
    ("ERR", "torch_npu's wrapper of another error", FIRST, _S, _TORCH_NPU),
    ("E", "compilation of an operator or another component", "read the text of the error", _C,
     _CANN),
)  # fmt: skip
#: Explanations of codes without a row of their own, by the prefix that is their key.
FAMILIES = tuple(
    Explanation(key=prefix, meaning=meaning, fix=fix, role=role, source=source)
    for prefix, meaning, fix, role, source in _FAMILY_ROWS
)
