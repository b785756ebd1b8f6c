"""Measures `warpfold.array_api` with the array API's own tests: `python measure_array_api.py FOLDER [arguments of pytest]`.

The suite (data-apis/array-api-tests, at one commit) is cloned to FOLDER unless it is there already, with `git`; where
it cannot be had, this says so and ends with 0. Needs pytest, hypothesis and ndindex. Ends with 1 if a test fails that
`array_api_fails.txt` does not name; `--update` writes that file.
"""

import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SUITE = "https://github.com/data-apis/array-api-tests"
#: What was current in April 2026.
COMMIT = "55fcc60179efa2680ddd6cd926ddf17b83530e2b"
FAILS = HERE / "array_api_fails.txt"
NEEDS = ("pytest", "hypothesis", "ndindex", "pytest_jsonreport")
OUTCOME = re.compile(r"^(array_api_tests/\S+(?: .*)?) (PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)\b")


def do_not_shrink() -> None:
    """As a plugin of pytest: a failure is not made smaller, which takes minutes each."""
    import hypothesis

    register = hypothesis.settings.register_profile

    def quickly(name: str, *parents: object, **options: object) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        register(name, *parents, **{**options, "phases": phases})  # type: ignore[arg-type]

    # The class refuses to be changed in the plain way.
    type.__setattr__(hypothesis.settings, "register_profile", staticmethod(quickly))


def pytest_collection_modifyitems(items: list) -> None:  # type: ignore[type-arg]
    """Skips special cases of complex numbers, and names of extensions: neither is offered."""
    import pytest

    for item in items:
        case = item.name.partition("[")[2]
        if "(x_i)" in case and ("real(" in case or "imag(" in case):
            item.add_marker(pytest.mark.skip(reason="there are no complex numbers"))
        if case.startswith(("linalg-", "fft-")):
            item.add_marker(pytest.mark.skip(reason="the extension is not offered"))


def fetched(folder: pathlib.Path) -> bool:
    """Whether the suite is there, or could be cloned with the specification that it reads."""
    if (folder / "array_api_tests").is_dir():
        return True
    steps = (
        ["git", "clone", "--quiet", SUITE, str(folder)],
        ["git", "-C", str(folder), "checkout", "--quiet", COMMIT],
        ["git", "-C", str(folder), "submodule", "--quiet", "update", "--init"],
    )
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    if not all(subprocess.run(step, env=environment, capture_output=True).returncode == 0 for step in steps):
        return False
    # At this commit the suite does not start without complex types: it looks for the widest of none.
    helpers = folder / "array_api_tests" / "dtype_helpers.py"
    start = helpers.read_text()
    helpers.write_text(start.replace("in complex_dtypes], key=lambda x: x[1]\n", "in complex_dtypes], key=lambda x: x[1], default=(None, 0)\n"))
    return True


def main(folder: pathlib.Path, arguments: list[str], update: bool) -> int:
    if subprocess.run([sys.executable, "-c", f"import {', '.join(NEEDS)}"], capture_output=True).returncode:
        print("skipped: the array API's tests need pytest, pytest-json-report, hypothesis and ndindex")
        return 0
    if not fetched(folder):
        print(f"skipped: {SUITE} cannot be cloned, and {folder} does not have it")
        return 0
    # There are no complex numbers; the suite is told so by its own variable.
    environment = {
        **os.environ,
        "ARRAY_API_TESTS_MODULE": "warpfold.array_api",
        "ARRAY_API_TESTS_SKIP_DTYPES": "complex64,complex128",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH")))),
        "WARPFOLD_DEVICE": os.environ.get("WARPFOLD_DEVICE", "virtual"),
    }
    command = [sys.executable, "-m", "pytest", "-v", "--color=no", "-p", "no:cacheprovider", "-p", "measure_array_api", "--tb=line", "-W", "ignore"]
    command += ["--max-examples=10", "--disable-deadline", "--hypothesis-derandomize"]
    with subprocess.Popen(
        [*command, *(arguments or ["array_api_tests"])], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE
    ) as process:
        outcomes: dict[str, str] = {}
        assert process.stdout is not None
        for line in process.stdout:
            if found := OUTCOME.match(line):
                outcomes[found[1]] = found[2]
            else:
                print(line, end="")
    if not outcomes:
        print("error: the suite ran no test")
        return 1
    failed = sorted(name for name, outcome in outcomes.items() if outcome in ("FAILED", "ERROR"))
    passed = sum(outcome == "PASSED" for outcome in outcomes.values())
    skipped = sum(outcome == "SKIPPED" for outcome in outcomes.values())
    print(f"array API: {passed} of {passed + len(failed)} tests pass, {skipped} are skipped")
    if update:
        FAILS.write_text("".join(f"{name}\n" for name in failed))
        return 0
    known = set(FAILS.read_text().splitlines()) if FAILS.exists() else set()
    worse = [name for name in failed if name not in known]
    better = sorted(name for name in known if outcomes.get(name) == "PASSED")
    for what, names in (("fails", worse), ("passes, and array_api_fails.txt says that it fails", better)):
        for name in names:
            print(f"{what}: {name}")
    return 1 if worse else 0


if __name__ == "measure_array_api":
    do_not_shrink()
elif __name__ == "__main__":
    rest = [argument for argument in sys.argv[1:] if argument != "--update"]
    if not rest:
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(rest[0]).resolve(), rest[1:], update="--update" in sys.argv))
