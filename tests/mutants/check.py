"""Break the core in every small way that mutmut knows, and see a test fail each time.

    make mutants                                        everything in plan.toml
    make mutants FILES="src/sessionsched/verdict.py"    only that

Rule 1. A mutant is killed when a test fails, or never ends. Whatever else happens, it has survived.
Rule 2. A survivor is listed in equivalent.toml with the reason why no test can tell it from the
        original, or it is a failure.
Rule 3. What is listed but has not survived is stale, and a failure too.
Rule 4. A survivor is known by its file, its function and the lines that it changes. The numbers
        that mutmut gives to mutants change with every edit.

Each file is mutated in a copy of its own, below .mutants/, and judged by the tests that plan.toml
names for it. What mutmut has found out there stands until the package or one of these tests
changes, so a run that was interrupted goes on where it was.

mutmut changes what is written in functions; not tables, and not functions with a decorator (but
for staticmethod and classmethod). It chooses the mutant when everything is imported: a function
that has done its work by then is out of its reach, and plan.toml says who judges it instead.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
WORK = ROOT / ".mutants"

#: What the tests read beside the package and themselves.
BESIDE = (
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "mkdocs.yml", "docs", "examples",
)  # fmt: skip
#: Every other word of mutmut (survived, no tests, suspicious, ...) means that no test has failed.
KILLED = frozenset({"killed", "timeout"})


@frozen(order=True)
class Mutant:
    """One change of one function, whatever number mutmut gives to it."""

    file: str
    function: str
    #: The lines that go (-) and come (+), without their indentation.
    change: tuple[str, ...]

    def __str__(self) -> str:
        lines = "\n".join(self.change)
        return (
            f'[[equivalent]]\nfile = "{self.file}"\nfunction = "{self.function}"\n'
            f"change = '''\n{lines}\n'''\n"
        )


@frozen
class Findings:
    """What mutmut has found out about one file."""

    file: str
    survivors: list[Mutant]
    #: How many mutants there are, and how many of them a test has killed by never ending.
    mutants: int
    endless: int
    seconds: float

    def __str__(self) -> str:
        killed = self.mutants - len(self.survivors)
        return (
            f"{self.file}: {killed} of {self.mutants} killed ({self.endless} of them endless)"
            f" in {self.seconds:.0f} s"
        )


class CannotRun(Exception):
    """mutmut could not do its work, or was asked for something that is not in the plan."""


# --- what is written down ---


@frozen
class Plan:
    """What is mutated, and who judges it."""

    #: The tests of each file.
    files: dict[str, list[str]]
    #: The functions, `file:function`, that mutmut can't reach; with the reason.
    out_of_reach: dict[str, str]


def read_plan(path: Path = HERE / "plan.toml") -> Plan:
    """Give the plan as it is written down."""
    return Plan(**tomllib.loads(path.read_text(encoding="utf-8")))


def read_equivalents(path: Path = HERE / "equivalent.toml") -> Counter[Mutant]:
    """Give the survivors that are known, and how often each is there.

    Raises:
        CannotRun: one has no reason, or is listed twice (`times` says that a function has several).
    """
    known: Counter[Mutant] = Counter()
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", []):
        mutant = Mutant(entry["file"], entry["function"], change_of(entry["change"]))
        if not entry.get("reason", "").strip():
            msg = f"say why it is equivalent:\n{mutant}"
            raise CannotRun(msg)
        if mutant in known:
            msg = f"it is listed twice:\n{mutant}"
            raise CannotRun(msg)
        known[mutant] = entry.get("times", 1)
    return known


def change_of(diff: str) -> tuple[str, ...]:
    """Give the lines of a diff that go and come, so that they can be compared."""
    return tuple(
        f"{line[0]} {line[1:].strip()}"
        for line in diff.splitlines()
        if line.startswith(("-", "+")) and not line.startswith(("---", "+++"))
    )


# --- what mutmut says ---


def statuses(text: str) -> dict[str, str]:
    """Read `mutmut results --all true`: the status of each mutant by mutmut's own name."""
    return dict(re.findall(r"^ +(\S+__mutmut_\d+): (.+)$", text, re.MULTILINE))


def function_of(name: str) -> str:
    """Give the function that a mutant of mutmut's naming belongs to: `Line.add`, or `beats`."""
    mangled = name.rpartition(".")[2].partition("__mutmut_")[0]
    return mangled.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")


def is_about_a_type(mutant: Mutant) -> bool:
    """Whether it changes the type of a `cast`, and that alone: nothing happens there."""
    lines = [re.sub(r'cast\(("[^"]*"|None), ', "cast(", line[1:]) for line in mutant.change]
    return len(set(lines)) == 1


def examine(file: str, plan: Plan, children: int) -> Findings:
    """Let mutmut try every mutant of a file that it has not tried yet.

    Raises:
        CannotRun: it failed; its log says why.
    """
    begun = time.monotonic()
    place = prepare(file, plan.files[file])
    mutmut(place, "run", "--max-children", str(children))
    found = statuses(mutmut(place, "results", "--all", "true"))
    if left := list(found.values()).count("not checked"):
        msg = f"{file}: {left} mutants were not tried; run it again, and it goes on"
        raise CannotRun(msg)
    alive = [
        Mutant(file, function_of(name), change_of(mutmut(place, "show", name)))
        for name, status in found.items()
        if status not in KILLED
    ]
    survivors = sorted(mutant for mutant in alive if not is_about_a_type(mutant))
    mutants = len(found) - len(alive) + len(survivors)
    endless = list(found.values()).count("timeout")
    return Findings(file, survivors, mutants, endless, time.monotonic() - begun)


def mutmut(place: Path, *args: str) -> str:
    """Run one command of mutmut; give what it prints."""
    command = [sys.executable, "-m", "mutmut", *args]
    done = subprocess.run(  # noqa: S603 - our own words
        command, cwd=place, capture_output=True, text=True, check=False, env=environment()
    )
    if done.returncode:
        (place / "mutmut.log").write_text(done.stdout + done.stderr, encoding="utf-8")
        msg = f"mutmut {args[0]} failed; see {place.relative_to(ROOT)}/mutmut.log"
        raise CannotRun(msg)
    return done.stdout


def environment() -> dict[str, str]:
    """Give the environment of a run, in which the same tests do the same each time."""
    return {**os.environ, "HYPOTHESIS_PROFILE": "ci", "PYTHONHASHSEED": "0"}


# --- where it works ---


def prepare(file: str, tests: Sequence[str]) -> Path:
    """Give the file's own copy of everything: the one that is there, unless something changed."""
    place = WORK / file.removeprefix("src/sessionsched/").removesuffix(".py").replace("/", ".")
    now = fingerprint(file, tests)
    mark = place / "fingerprint"
    if mark.exists() and mark.read_text(encoding="utf-8") == now:
        return place
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name in ("src", "tests", *BESIDE):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, place / name)
    (place / "pyproject.toml").write_text(configuration(file, tests), encoding="utf-8")
    mark.write_text(now, encoding="utf-8")
    return place


def configuration(file: str, tests: Sequence[str]) -> str:
    """Give pyproject.toml, with this file and its tests in mutmut's own table."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    head = "[tool.mutmut]\n"
    lines = f"only_mutate = {[file]}\npytest_add_cli_args_test_selection = {list(tests)}\n"
    keys = (key.partition(":") for key in read_plan().out_of_reach)
    if patterns := [line for at, _, name in keys if at == file for line in lines_of(file, name)]:
        lines += f"do_not_mutate_patterns = {json.dumps(patterns)}\n"
    return text.replace(head, head + lines)


def lines_of(file: str, function: str) -> list[str]:
    """Give patterns of the lines that a function consists of."""
    text = (ROOT / file).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for name in function.split("."):
        node = next(it for it in ast.iter_child_nodes(node) if getattr(it, "name", "") == name)
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
    return [f"^{re.escape(line)}$" for line in lines if line.strip()]


def fingerprint(file: str, tests: Sequence[str]) -> str:
    """Sum up all that a verdict depends on."""
    digest = hashlib.sha256(configuration(file, tests).encode())
    digest.update(importlib.metadata.version("mutmut").encode())
    for path in sorted(depends_on(tests)):
        digest.update(f"{path}\n".encode())
        digest.update((ROOT / path).read_bytes())
    return digest.hexdigest()


def depends_on(tests: Iterable[str]) -> set[Path]:
    """Give the package, these tests, and what stands beside them and is no test itself."""
    found = {*(ROOT / "src").rglob("*.py"), ROOT / "tests" / "conftest.py"}
    for test in tests:
        path = ROOT / test
        found.add(path)
        found |= {other for other in path.parent.glob("*.py") if other.name[:5] != "test_"}
    return {path.relative_to(ROOT) for path in found}


# --- the verdict ---


def compare(
    all_findings: Sequence[Findings], known: Counter[Mutant]
) -> tuple[list[Mutant], list[Mutant]]:
    """Give the survivors that are not known, and what is known of these files but is stale."""
    files = {findings.file for findings in all_findings}
    survived = Counter(mutant for findings in all_findings for mutant in findings.survivors)
    listed = Counter({mutant: times for mutant, times in known.items() if mutant.file in files})
    new, stale = survived - listed, listed - survived
    return sorted(new.elements()), sorted(stale.elements())


def report(new: Sequence[Mutant], stale: Sequence[Mutant], known: int) -> str:
    """Say it for people, in such a way that it can be pasted into equivalent.toml."""
    lines = []
    if new:
        lines += [
            f"\n{len(new)} new survivors: test what they change, or list them with a reason\n"
        ]
        lines += [str(mutant) for mutant in new]
    if stale:
        lines += [f"\n{len(stale)} entries are stale: no such mutant survives; take them out\n"]
        lines += [str(mutant) for mutant in stale]
    if not lines:
        lines = [f"every mutant is killed, but for {known} that are equivalent"]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Examine the files that are named, or all; 0: as it should be, 1: not, 2: could not tell."""
    parser = argparse.ArgumentParser(description="see a test fail for every mutant of the core")
    parser.add_argument("files", nargs="*", help="of those in plan.toml; all, if none is named")
    parser.add_argument("--children", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(argv)
    try:
        return check(options.files, options.children)
    except CannotRun as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted; what was found out so far is kept", file=sys.stderr)
    return 2


def check(files: Sequence[str], children: int) -> int:
    plan, known = read_plan(), read_equivalents()
    if strangers := sorted({*files, *(mutant.file for mutant in known)} - plan.files.keys()):
        msg = f"not in plan.toml: {', '.join(strangers)}"
        raise CannotRun(msg)
    all_findings = []
    for file in files or plan.files:
        findings = examine(file, plan, children)
        print(findings, flush=True)
        all_findings.append(findings)
    new, stale = compare(all_findings, known)
    print(report(new, stale, sum(len(findings.survivors) for findings in all_findings)))
    return 1 if new or stale else 0


if __name__ == "__main__":
    sys.exit(main())
