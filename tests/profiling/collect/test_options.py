"""The tables of options against facts of msopprof's argument checks, written down one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels_npu.errors import UsageError
from profiling.collect import MODES, Family, Request, argument_list, check, family_of
from tests.profiling import fake_msprof

ALL = ("910B", "910_93", "310P", "950")
SOCS = dict(zip(ALL, ("Ascend910B3", "Ascend910_9391", "Ascend310P3", "Ascend950PR_9599")))
SPLIT = ("910B", "910_93", "950")
#: Mode, options of a command line, chips that take them. Where a chip is missing, it refuses.
TAKEN = (
    ("op", "--launch-count=1", ALL),
    ("op", "--launch-count=5000", ALL),
    ("op", "--launch-skip-before-match=0", ALL),
    ("op", "--launch-skip-before-match=1000", ALL),
    ("op", "--warm-up=0", ALL),
    ("op", "--warm-up=500", ALL),
    ("op", "--kernel-name=rms_norm_kernel*|_ZN3foo*|*", ALL),
    ("op", f"--kernel-name={'k' * 1022}", ALL),
    ("op", "--aic-metrics=Default", ALL),
    ("op", "--aic-metrics=pipeutilization,MEMORYub", ALL),
    (
        "op",
        "--aic-metrics=ArithmeticUtilization,L2Cache,Memory,MemoryL0,ResourceConflictRatio",
        ALL,
    ),
    ("op", "--aic-metrics=BasicInfo,Roofline", ALL),
    ("op", "--aic-metrics=KernelScale", SPLIT),
    ("op", "--aic-metrics=occupancy", SPLIT),
    ("op", "--aic-metrics=Source", SPLIT),
    ("op", "--aic-metrics=MemoryDetail", SPLIT),
    ("op", "--aic-metrics=TimelineDetail", SPLIT),
    ("op", "--aic-metrics=PipeTimeline", ("950",)),
    ("op", "--aic-metrics=PCSampling", ("950",)),
    ("op", "--aic-metrics=InstrTimeline", ("950",)),
    (
        "op",
        "--aic-metrics=InstrTimeline --instr-timeline-pipe=cube|fixp|vector|mte1|mte2|mte3",
        ("950",),
    ),
    ("op", "--replay-mode=kernel", ALL),
    ("op", "--replay-mode=application", ALL),
    ("op", "--replay-mode=range --mstx=on", SPLIT),
    ("op", "--kill=on --mstx=on", ALL),
    ("op", "--kill=off --mstx=off", ALL),
    ("op", "--custom-input=ticks.json", ALL),
    ("op", "--mstx=on --mstx-include=step_1|step_2", ALL),
    ("op", "--dump=on --aic-metrics=TimelineDetail", ("910B", "910_93")),
    ("op", "--dump=off --aic-metrics=TimelineDetail", ("910B", "910_93")),
    ("op", "--core-id=0|49 --aic-metrics=TimelineDetail", SPLIT),
    ("simulator", "--aic-metrics=PipeUtilization", ALL),
    ("simulator", "--aic-metrics=PipeUtilization,ResourceConflictRatio,PMSampling", ALL),
    ("simulator", "--aic-metrics=PipeUtilization,Overhead", ("910B", "910_93")),
    ("simulator", "--timeout=1", ALL),
    ("simulator", "--timeout=2880", ALL),
    ("simulator", "--core-id=0|31|49", ALL),
    ("simulator", "--dump=on", ("910B", "910_93")),
    ("simulator", "--dump=off", ("910B", "910_93")),
    ("simulator", "--mstx=off --launch-count=1", ALL),
    ("simulator", f"--kernel-name={'k' * 1022}", ALL),
    ("simulator", "--aic-metrics=pipeutilization", ALL),
    ("simulator", "--launch-count=5000 --kernel-name=a --mstx=on --mstx-include=b", ALL),
    ("app", "--ai-core=on --task-time=off --runtime-api=on", ALL),
    ("app", "--ai-core=off --task-time=on --runtime-api=off --aic-metrics=MemoryL0", ALL),
)
#: Mode, options, the code that refuses them on every chip.
REFUSED = (
    ("op", "--launch-count=0", "034"),
    ("op", "--launch-count=5001", "034"),
    ("op", "--launch-count=00001", "034"),
    ("op", "--launch-count=-1", "034"),
    ("op", "--launch-count=one", "034"),
    ("op", "--launch-count=", "034"),
    ("op", "--launch-skip-before-match=1001", "034"),
    ("op", "--warm-up=501", "034"),
    ("op", f"--kernel-name={'k' * 1023}", "034"),
    ("op", "--kernel-name=ns::kernel", "034"),
    ("op", "--kernel-name=a||b", "034"),
    ("op", "--kernel-name=a-b", "034"),
    ("op", "--aic-metrics=Pipe", "034"),
    ("op", "--aic-metrics=Default,", "034"),
    ("op", f"--aic-metrics={','.join(['Memory'] * 30)}", "034"),
    ("op", "--aic-metrics=PMSampling", "034"),
    ("op", "--aic-metrics=Overhead", "034"),
    ("op", "--replay-mode=none", "034"),
    ("op", "--kill=true", "034"),
    ("op", "--mstx=on --mstx-include=a-b", "034"),
    ("op", "--mstx=on --mstx-include=a:b", "034"),
    ("op", "--core-id=50 --aic-metrics=TimelineDetail", "034"),
    ("op", "--core-id=1,2 --aic-metrics=TimelineDetail", "034"),
    ("op", "--aic-metrics=InstrTimeline --instr-timeline-pipe=scalar", "034"),
    ("op", "--timeout=5", "035"),
    ("op", "--soc-version=Ascend910B1", "035"),
    ("op", "--mstx-include=a", "037"),
    ("op", "--mstx=off --mstx-include=a", "037"),
    ("op", "--replay-mode=range", "037"),
    ("op", "--replay-mode=range --mstx=on --warm-up=0", "037"),
    ("op", "--replay-mode=range --mstx=on --aic-metrics=Source", "037"),
    ("op", "--replay-mode=range --mstx=on --aic-metrics=memorydetail", "037"),
    ("op", "--replay-mode=range --mstx=on --aic-metrics=TimelineDetail", "037"),
    ("op", "--replay-mode=application --aic-metrics=TimelineDetail", "037"),
    ("op", "--aic-metrics=PipeTimeline,InstrTimeline", "037"),
    ("op", "--dump=on", "037"),
    ("op", "--core-id=1", "037"),
    ("op", "--instr-timeline-pipe=cube", "037"),
    ("simulator", "--aic-metrics=ResourceConflictRatio", "034"),
    ("simulator", "--aic-metrics=PipeUtilization,Default", "034"),
    ("simulator", f"--aic-metrics={','.join(['PipeUtilization'] * 13)}", "034"),
    ("simulator", "--launch-count=0", "034"),
    ("simulator", "--launch-count=5001", "034"),
    ("simulator", "--launch-count=00001", "034"),
    ("simulator", f"--kernel-name={'k' * 1023}", "034"),
    ("simulator", "--kernel-name=a-b", "034"),
    ("simulator", "--kernel-name=ns::kernel", "034"),
    ("simulator", "--mstx=on --mstx-include=a-b", "034"),
    ("simulator", "--mstx=on --mstx-include=a:b", "034"),
    ("simulator", "--timeout=0", "034"),
    ("simulator", "--timeout=2881", "034"),
    ("simulator", "--core-id=50", "034"),
    ("simulator", "--warm-up=5", "035"),
    ("simulator", "--kill=on", "035"),
    ("simulator", "--replay-mode=kernel", "035"),
    ("simulator", "--launch-skip-before-match=0", "035"),
    ("simulator", "--mstx-include=a", "037"),
    ("app", "--ai-core=yes", "034"),
    ("app", "--kernel-name=a", "035"),
)


def request(mode: str, line: str, chip: str | None = None) -> Request:
    pairs = (word.removeprefix("--").partition("=") for word in line.split())
    return Request(
        mode=MODES[mode],
        values={name: value for name, _, value in pairs},
        application=("python", "a.py"),
        soc=SOCS[chip] if chip else "",
    )


def stand_in_takes(asked: Request) -> bool:
    """Whether the stand-in for the tool goes on to run the application."""
    words = asked.mode.tools[0]
    command = argument_list(asked, words, Path("out"))
    mode, arguments = fake_msprof.mode_of(command)
    assert mode is asked.mode
    try:
        options, application = fake_msprof.parse(mode, arguments)
        chip = family_of(asked.soc or "A2")
        fake_msprof.refuse(mode, options, application, chip)
    except fake_msprof.Refused:
        return False
    assert application == list(asked.application)
    return True


@pytest.mark.parametrize(("mode", "line", "chips"), TAKEN)
def test_what_the_tool_takes(mode: str, line: str, chips: tuple[str, ...]) -> None:
    for chip in ALL:
        asked = request(mode, line, chip)
        if chip in chips:
            assert check(asked) == []
        else:
            with pytest.raises(UsageError) as caught:
                check(asked)
            assert caught.value.code == "AI-PROF-036"
            assert SOCS[chip] in str(caught.value)
        assert stand_in_takes(asked) == (chip in chips)
    warnings = check(request(mode, line))
    assert bool(warnings) == (chips != ALL)


@pytest.mark.parametrize(("mode", "line", "code"), REFUSED)
def test_what_the_tool_refuses(mode: str, line: str, code: str) -> None:
    for chip in ALL:
        asked = request(mode, line, chip)
        with pytest.raises(UsageError) as caught:
            check(asked)
        error = caught.value
        assert error.code == f"AI-PROF-{code}"
        assert error.rule and error.fix
        assert line.split("=")[0].split()[0] in str(error) or "--" in str(error)
        assert not stand_in_takes(asked)


def test_the_tables_have_the_options_of_the_tool_and_no_others() -> None:
    op = "application config aic-metrics kernel-name launch-count launch-skip-before-match"
    op += " replay-mode kill mstx mstx-include warm-up dump core-id custom-input"
    simulator = "config export kernel-name launch-count aic-metrics mstx mstx-include soc-version"
    assert set(MODES["op"].by_name) == {*op.split(), "instr-timeline-pipe"}
    assert set(MODES["simulator"].by_name) == {*simulator.split(), "core-id", "timeout", "dump"}


def test_the_command_of_an_application_is_msprofs() -> None:
    """The line that wrote the files of an application which the reader is tested with."""
    command = argument_list(request("app", ""), ("msprof",), Path("out"))
    assert command == [
        "msprof",
        "--output=out",
        "--type=text",
        "--summary-format=csv",
        "--ai-core=on",
        "--aic-metrics=PipeUtilization",
        "--task-time=on",
        "--runtime-api=on",
        "--application=python a.py",
    ]


@pytest.mark.parametrize("argument", ["two words", "it's", 'a"b', "a\\b", "", "line\nend"])
def test_what_msprof_would_take_apart_is_refused(argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(Request(mode=MODES["app"], application=("python", argument)))
    assert caught.value.code == "AI-PROF-039"
    asked = Request(mode=MODES["op"], application=("python", argument))
    assert check(asked) == []
    assert argument_list(asked, ("msprof", "op"), Path("o"))[-1] == argument


@pytest.mark.parametrize(
    ("mode", "values", "application"),
    [
        ("op", {}, ()),
        ("op", {"config": "a.json"}, ("python",)),
        ("simulator", {"config": "a.json", "export": "dump"}, ()),
        ("simulator", {"export": "dump"}, ("python",)),
        ("app", {}, ()),
        ("op", {}, ("--version",)),
    ],
)
def test_exactly_one_thing_is_profiled(
    mode: str, values: dict[str, str], application: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError) as caught:
        check(Request(mode=MODES[mode], values=values, application=application))
    assert caught.value.code == "AI-PROF-039"


@pytest.mark.parametrize(
    ("mode", "values", "code"),
    [
        ("op", {"config": "a.json"}, ""),
        ("op", {"config": "a.json", "kernel-name": "a"}, "AI-PROF-037"),
        ("simulator", {"export": "dump"}, ""),
        ("simulator", {"config": "a.json", "soc-version": "Ascend910B1"}, "AI-PROF-037"),
        ("op", {"application": "./a.out 1"}, "AI-PROF-035"),
    ],
)
def test_what_stands_in_for_an_application(mode: str, values: dict[str, str], code: str) -> None:
    asked = Request(mode=MODES[mode], values=values)
    if not code:
        assert check(asked) == []
        return
    with pytest.raises(UsageError) as caught:
        check(asked)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("soc", "chip"),
    [
        ("Ascend910B1", Family.A2),
        ("910B4-1", Family.A2),
        ("Ascend910B2C", Family.A2),
        ("Ascend910_9391", Family.A3),
        ("Ascend310P3", Family.P310),
        ("Ascend950PR_9599", Family.A5),
    ],
)
def test_families_of_chips(soc: str, chip: Family) -> None:
    assert family_of(soc) is chip
    asked = Request(
        mode=MODES["simulator"],
        values={"soc-version": soc, "dump": "on"},
        application=("./app",),
    )
    if not soc.startswith("Ascend"):
        return
    if chip in (Family.A2, Family.A3):
        assert check(asked) == []
    else:
        with pytest.raises(UsageError, match=soc):
            check(asked)


@pytest.mark.parametrize("soc", ["Ascend310B1", "Ascend910A", "H200", ""])
def test_other_chips_are_refused(soc: str) -> None:
    with pytest.raises(UsageError) as caught:
        family_of(soc)
    assert caught.value.code in ("AI-PROF-036", "AI-DEV-010")


def test_a_simulator_may_be_newer_than_the_table() -> None:
    values = {"soc-version": "Ascend990XY_1", "dump": "on"}
    (warning,) = check(Request(mode=MODES["simulator"], values=values, application=("a",)))
    assert "the chip is not known" in warning


def test_a_long_path_of_the_output() -> None:
    for length, taken in ((200, True), (201, False)):
        asked = Request(mode=MODES["op"], application=("a",), output=Path("x" * length))
        if taken:
            assert check(asked) == []
        else:
            with pytest.raises(UsageError, match="201 characters"):
                check(asked)


@settings(max_examples=300)
@given(
    st.sampled_from(list(MODES.values())),
    st.dictionaries(
        st.sampled_from(sorted({o.name for m in MODES.values() for o in m.options})),
        st.text(max_size=6) | st.sampled_from(["on", "off", "1", "range", "0|1", "TimelineDetail"]),
        max_size=3,
    ),
)
def test_the_check_and_the_stand_in_agree_on_any_values(mode, values) -> None:
    """Two programs over one table: what the check lets through, the tool takes."""
    asked = Request(mode=mode, values=values, application=("a",), soc="Ascend910B1")
    try:
        check(asked)
        taken = True
    except UsageError:
        taken = False
    if "application" not in values:
        assert stand_in_takes(asked) == taken
