"""Makes the wheel of a library and a program that cargo has built already, and prints its path:

    python3 wheel.py LIBRARY FOLDER [--program PROGRAM] [--platform TAG]

With the program, `pip install` brings the command `warpfold`, too. The platform of a library of Linux is its processor
and the glibc that it and the program ask for; those of others are named (`macosx_11_0_arm64`, `win_amd64`).
`maturin build` makes the same wheel without the program and builds the library first, in another resolution of features,
so that it compiles every crate anew. Needs nothing but the standard library.
"""

import argparse
import base64
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


def metadata(project: dict, version: str) -> str:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
        f"License-Expression: {project['license']}",
        *(f"Classifier: {each}" for each in project["classifiers"]),
        *(f"Requires-Dist: {each}" for each in project["dependencies"]),
    ]
    for extra, needs in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {each}; extra == "{extra}"' for each in needs)]
    lines += ["Description-Content-Type: text/markdown", "", (HERE / project["readme"]).read_text()]
    return "\n".join(lines)


def stripped(built: pathlib.Path) -> bytes:
    """A library or program without symbols, where there is a `strip` that can."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / built.name
        shutil.copy(built, copy)
        if shutil.which("strip") and subprocess.run(["strip", str(copy)], stderr=subprocess.DEVNULL).returncode:
            # Of another processor: then its linker has left them out, or they stay.
            shutil.copy(built, copy)
        return copy.read_bytes()


def platform_of(binaries: list[bytes]) -> str:
    """`manylinux_2_34_x86_64`: what files of Linux run on, by their headers and the versions of symbols that they name."""
    names = {62: "x86_64", 183: "aarch64"}
    if any(binary[:5] != b"\x7fELF\x02" for binary in binaries):
        sys.exit("error: not a program or library of Linux: name its --platform")
    processors = {int.from_bytes(binary[18:20], "little") for binary in binaries}
    if len(processors) != 1 or not processors <= names.keys():
        sys.exit(f"error: processors {processors}, one of {names} is expected")
    # A version is needed if its name is among the strings of the dynamic linker, each of which ends with a zero.
    versions = [int(minor) for binary in binaries for minor in re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", binary)]
    return f"manylinux_2_{max(versions)}_{names[processors.pop()]}"


def main(library: str, folder: str, program: str | None, platform: str | None) -> None:
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    workspace = tomllib.loads((HERE / "../../Cargo.toml").read_text())["workspace"]
    version = workspace["package"]["version"]
    info = f"{project['name']}-{version}.dist-info"
    built = [stripped(pathlib.Path(path)) for path in (library, program) if path]
    tag = f"cp311-abi3-{platform or platform_of(built)}"
    files = {}
    sources = HERE / "python"
    for path in sorted(sources.rglob("*")):
        if path.suffix in (".py", ".pyi", ".typed"):
            files[str(path.relative_to(sources))] = path.read_bytes()
    files["warpfold/_native" + (".pyd" if library.endswith(".dll") else ".abi3.so")] = built[0]
    scripts = f"{project['name']}-{version}.data/scripts/"
    if program:
        files[scripts + pathlib.Path(program).name] = built[1]
    files[f"{info}/METADATA"] = metadata(project, version).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: warpfold\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    points = project["entry-points"]
    files[f"{info}/entry_points.txt"] = "\n".join(
        f"[{group}]\n" + "\n".join(f"{name} = {target}" for name, target in entries.items()) + "\n"
        for group, entries in points.items()
    ).encode()
    for licence in sorted((HERE / "../..").resolve().glob("LICENSE-*")):
        files[f"{info}/licenses/{licence.name}"] = licence.read_bytes()
    record = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}"
        for name, content in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    out = pathlib.Path(folder) / f"{project['name']}-{version}-{tag}.whl"
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, content in files.items():
            # The same bytes on every run; pip lets a regular file be run that may be run here.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if name.startswith(scripts) else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            # An entry of its own does not take the level of the file.
            wheel.writestr(entry, content, compresslevel=9)
    print(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("folder")
    parser.add_argument("--program")
    parser.add_argument("--platform")
    main(**vars(parser.parse_args()))
