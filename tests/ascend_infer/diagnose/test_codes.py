"""The tables of codes against CANN's own header, and themselves."""

from __future__ import annotations

import pytest
from contract_suite.snapshot import read_codes

from ascend_infer.diagnose.catalogue import CODES, explain
from ascend_infer.diagnose.codes import Role
from ascend_infer.diagnose.events import parse_error
from ascend_infer.diagnose.runtime_codes import RUNTIME_CODES
from ascend_infer.diagnose.signatures import SIGNATURES
from ascend_infer.diagnose.text_codes import FAMILIES
from tests.contracts.fake_torch_npu import NEWEST, SNAPSHOTS


def test_every_code_of_the_newest_header_is_explained_under_its_name() -> None:
    header = {code: name for code, name in read_codes(NEWEST).items() if code[1:3] == "07"}
    assert len(header) > 140
    assert {code: e.source.rpartition(" ")[2] for code, e in RUNTIME_CODES.items()} == header


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=lambda path: path.stem)
def test_no_release_gives_a_code_another_name(snapshot) -> None:
    for code, name in read_codes(snapshot).items():
        assert code not in RUNTIME_CODES or RUNTIME_CODES[code].source.endswith(name)


def test_every_row_has_a_fix_and_a_source() -> None:
    for row in (*CODES.values(), *FAMILIES, *(row for _, row in SIGNATURES)):
        assert row.meaning and row.fix and row.source and row.role is not Role.UNKNOWN


@pytest.mark.parametrize(
    ("code", "role", "meaning"),
    [
        ("107046", Role.FOLLOWER, "a sub graph is still being captured"),
        ("EI0006", Role.CAUSE, "communication (HCCL)"),
        ("E40021", Role.CAUSE, "compilation of an operator or another component"),
        ("ERR00100", Role.SYMPTOM, "torch_npu's wrapper of another error"),
        ("E", Role.UNKNOWN, "not in the table"),
        ("507999", Role.UNKNOWN, "not in the table"),
        ("RUNTIME", Role.UNKNOWN, "not in the table"),
    ],
)
def test_a_code_without_a_row_has_its_familys(code: str, role: Role, meaning: str) -> None:
    found = explain(code)
    assert (found.key, found.role, found.meaning) == (code, role, meaning)


@pytest.mark.parametrize("code", sorted(RUNTIME_CODES))
def test_hexadecimal_return_codes_are_the_same_numbers(code: str) -> None:
    for written in (code, f"{int(code):#x}", f"0X{int(code):08X}"):
        found = parse_error(
            f"[ERROR] RUNTIME(1,):2026-03-10-16:49:31.543.228 [a.cc:1]7 f:retCode={written}"
        )
        assert found is not None and found.explanation.key == code
    other = parse_error(
        "[ERROR] RUNTIME(1,):2026-03-10-16:49:31.543.228 [a.cc:1]7 f:retCode=0x7020023"
    )
    assert other is not None and other.explanation.key == "RUNTIME"
