"""How survivors are read, recognised and judged; and that the lists beside it are in order."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from typing import TYPE_CHECKING

import check
import pytest
from check import CannotRun, Findings, Mutant

if TYPE_CHECKING:
    from pathlib import Path

FILE = "src/sessionsched/line.py"
SHOWN = """\
# sessionsched.line.xǁLineǁadd__mutmut_3: survived
--- src/sessionsched/line.py
+++ src/sessionsched/line.py
@@ -3,7 +3,7 @@
     def add(self, run):
-        self._last = True
+        self._last = False
         return run
"""
MUTANT = Mutant(FILE, "Line.add", ("- self._last = True", "+ self._last = False"))
OTHER = Mutant(FILE, "Line.add", ("- self._first = None", '+ self._first = ""'))


def found(*survivors: Mutant, file: str = FILE) -> Findings:
    return Findings(file, list(survivors), mutants=10, endless=1, seconds=2.4)


def write(tmp_path: Path, *entries: str) -> Path:
    path = tmp_path / "equivalent.toml"
    path.write_text("\n".join(entries), encoding="utf-8")
    return path


# --- what mutmut says ---


def test_a_change_is_what_goes_and_comes_without_indentation_and_place() -> None:
    assert check.change_of(SHOWN) == MUTANT.change


def test_a_function_is_named_as_people_write_it() -> None:
    assert check.function_of("sessionsched.line.xǁLineǁadd__mutmut_3") == "Line.add"
    assert check.function_of("sessionsched.verdict.x_beats__mutmut_12") == "beats"
    assert check.function_of("sessionsched.dial.x__over__mutmut_1") == "_over"
    assert check.function_of("sessionsched.dial.xǁ_Callǁ__init____mutmut_1") == "_Call.__init__"


def test_the_statuses_are_read_line_by_line() -> None:
    text = "    a.x_b__mutmut_1: killed\n    a.xǁCǁd__mutmut_2: no tests\n"
    assert check.statuses(text) == {"a.x_b__mutmut_1": "killed", "a.xǁCǁd__mutmut_2": "no tests"}


@pytest.mark.parametrize(
    ("after", "expected"),
    [("cast(None, find(x))", True), ('cast("TASK", find(x))', True),
     ('cast("Task", find(None))', False), ('cast("Task", None)', False)],
)  # fmt: skip
def test_a_change_of_a_type_in_a_cast_is_no_mutant(after: str, *, expected: bool) -> None:
    change = ('- x = cast("Task", find(x))', f"+ x = {after}")
    assert check.is_about_a_type(Mutant(FILE, "f", change)) == expected


# --- the list of equivalents ---


def test_what_is_printed_for_a_survivor_can_be_pasted_into_the_list(tmp_path: Path) -> None:
    path = write(tmp_path, str(MUTANT), 'reason = "it is so"', str(OTHER), 'reason = "too"')
    assert check.read_equivalents(path) == Counter({MUTANT: 1, OTHER: 1})


def test_a_change_that_a_function_has_twice_is_listed_once(tmp_path: Path) -> None:
    path = write(tmp_path, str(MUTANT), "times = 2", 'reason = "it is so"')
    assert check.read_equivalents(path) == Counter({MUTANT: 2})


def test_a_survivor_without_a_reason_is_refused(tmp_path: Path) -> None:
    for reason in ("", 'reason = " "'):
        with pytest.raises(CannotRun, match="say why"):
            check.read_equivalents(write(tmp_path, str(MUTANT), reason))


def test_a_survivor_that_is_listed_twice_is_refused(tmp_path: Path) -> None:
    entry = f'{MUTANT}reason = "it is so"\n'
    with pytest.raises(CannotRun, match="twice"):
        check.read_equivalents(write(tmp_path, entry, entry))


# --- the verdict ---


def test_a_survivor_that_nobody_knows_is_new() -> None:
    assert check.compare([found(MUTANT)], Counter()) == ([MUTANT], [])


def test_a_survivor_that_is_known_is_fine() -> None:
    assert check.compare([found(MUTANT)], Counter({MUTANT: 1})) == ([], [])


def test_a_second_one_of_the_same_look_is_new() -> None:
    assert check.compare([found(MUTANT, MUTANT)], Counter({MUTANT: 1})) == ([MUTANT], [])


def test_what_is_known_and_does_not_survive_is_stale() -> None:
    assert check.compare([found(MUTANT)], Counter({MUTANT: 2, OTHER: 1})) == ([], [OTHER, MUTANT])


def test_what_is_known_of_a_file_that_was_not_examined_is_not_stale() -> None:
    elsewhere = [found(file="src/sessionsched/slots.py")]
    assert check.compare(elsewhere, Counter({MUTANT: 1})) == ([], [])


def test_the_report_names_what_is_new_and_what_is_stale_and_says_what_to_do() -> None:
    text = check.report([MUTANT], [OTHER], known=0)
    assert "1 new survivors: test what they change, or list them" in text
    assert str(MUTANT) in text.partition("stale")[0]
    assert str(OTHER) in text.partition("stale")[2]


def test_the_report_of_a_good_day_is_one_line() -> None:
    assert check.report([], [], known=3) == "every mutant is killed, but for 3 that are equivalent"


def test_the_line_of_a_file_says_how_many_were_killed_and_how() -> None:
    assert str(found(MUTANT)) == f"{FILE}: 9 of 10 killed (1 of them endless) in 2 s"


def test_a_file_that_is_not_in_the_plan_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["src/sessionsched/nothing.py"]) == 2
    assert capsys.readouterr().err == "not in plan.toml: src/sessionsched/nothing.py\n"


# --- what is written down is in order ---

PLAN = check.read_plan()


def test_every_file_and_every_test_of_the_plan_is_there() -> None:
    named = [*PLAN.files, *(test for tests in PLAN.files.values() for test in tests)]
    assert [name for name in named if not (check.ROOT / name).is_file()] == []
    assert [file for file, tests in PLAN.files.items() if not tests] == []


def test_the_core_and_the_asyncio_driver_are_in_the_plan() -> None:
    source = check.ROOT / "src" / "sessionsched"
    core = [source / f"{name}.py" for name in ("machine", "table", "verdict", "driver")]
    core += [path for path in (source / "aio").glob("*.py") if path.stem != "__init__"]
    assert {path.relative_to(check.ROOT).as_posix() for path in core} <= PLAN.files.keys()


def test_every_function_that_is_excused_is_there_and_has_a_reason() -> None:
    excused = [(mutant.file, mutant.function) for mutant in check.read_equivalents()]
    excused += [(file, name) for file, _, name in (key.partition(":") for key in PLAN.out_of_reach)]
    for file, function in excused:
        tree = ast.parse((check.ROOT / file).read_text(encoding="utf-8"))
        names = {getattr(node, "name", None) for node in ast.walk(tree)}
        assert set(function.split(".")) <= names, (file, function)
    assert all(reason.strip() for reason in PLAN.out_of_reach.values())


def test_mutmut_leaves_the_functions_alone_that_are_out_of_its_reach() -> None:
    file = "src/sessionsched/rows.py"
    told = tomllib.loads(check.configuration(file, []))["tool"]["mutmut"]
    patterns = [re.compile(pattern) for pattern in told["do_not_mutate_patterns"]]
    lines = (check.ROOT / file).read_text(encoding="utf-8").splitlines()
    left_alone = [line for line in lines if any(pattern.search(line) for pattern in patterns)]
    assert left_alone[0] == "def _rows() -> tuple[Row, ...]:"
    assert sum(" Row(" in line for line in left_alone) == 27
    assert not any("session.state" in line for line in left_alone)


def test_mutmut_is_told_which_file_to_mutate_and_which_tests_to_run() -> None:
    config = tomllib.loads(check.configuration(FILE, ["tests/unit/test_line.py"]))["tool"]
    assert config["mutmut"]["only_mutate"] == [FILE]
    assert config["mutmut"]["pytest_add_cli_args_test_selection"] == ["tests/unit/test_line.py"]
    assert set(check.BESIDE) == set(config["mutmut"]["also_copy"])
    assert config["pytest"]["ini_options"]["filterwarnings"] == ["error"]


def test_a_verdict_depends_on_the_package_the_tests_and_their_helpers() -> None:
    used = {path.as_posix() for path in check.depends_on(["tests/unit/test_dial.py"])}
    assert {FILE, "tests/unit/test_dial.py", "tests/unit/phones.py", "tests/conftest.py"} <= used
    assert "tests/unit/test_line.py" not in used
