"""Which files and tests are worth running: those that lead to a kernel with synchronisation."""

from __future__ import annotations

from pathlib import Path

from kernels_npu.sim.mutation.selection import find_files, synchronising_tests

TESTS = """
def fenced():
    T.barrier_all()

def plain():
    T.copy(a, b)

def run(factory=fenced):
    return factory()

class TestGroup:
    def test_of_class(self):
        run()

def test_direct():
    compile(fenced)

def test_without():
    plain()
"""


def test_tests_are_chosen_by_what_their_functions_mention(tmp_path: Path) -> None:
    script = tmp_path / "test_some.py"
    script.write_text(TESTS)
    assert synchronising_tests(script) == [
        f"{script}::TestGroup::test_of_class",
        f"{script}::test_direct",
    ]


def test_no_test_is_chosen_where_nothing_synchronises(tmp_path: Path) -> None:
    script = tmp_path / "test_other.py"
    script.write_text("def test_it():\n    print('set_flag')\n")
    assert synchronising_tests(script) == []


def test_files_come_with_the_most_to_delete_first(tmp_path: Path) -> None:
    folder = tmp_path / "examples" / "deep"
    folder.mkdir(parents=True)
    (folder / "few.py").write_text("T.barrier_all()\n")
    (folder / "many.py").write_text("T.set_flag('v', 's', 0)\nT.wait_flag('v', 's', 0)\n")
    (folder / "none.py").write_text("T.copy(a, b)\n")
    assert [file.name for file in find_files(tmp_path)] == ["many.py", "few.py"]
