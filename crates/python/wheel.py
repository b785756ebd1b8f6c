"""Makes the wheel of a library that cargo has built already: `python3 wheel.py LIBRARY FOLDER` prints its path.

`maturin build` makes the same wheel and builds the library first, in another resolution of features, so that it
compiles every crate anew. Needs nothing but the standard library.
"""

import base64
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
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


def stripped(library: pathlib.Path) -> bytes:
    """The library without symbols, where there is a `strip`."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / library.name
        shutil.copy(library, copy)
        if shutil.which("strip"):
            subprocess.run(["strip", str(copy)], check=True)
        return copy.read_bytes()


def main(library: str, folder: str) -> None:
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    workspace = tomllib.loads((HERE / "../../Cargo.toml").read_text())["workspace"]
    version = workspace["package"]["version"]
    info = f"{project['name']}-{version}.dist-info"
    tag = f"cp311-abi3-{re.sub('[-.]', '_', sysconfig.get_platform())}"
    files = {}
    sources = HERE / "python"
    for path in sorted(sources.rglob("*")):
        if path.suffix in (".py", ".pyi", ".typed"):
            files[str(path.relative_to(sources))] = path.read_bytes()
    files["warpfold/_native.abi3.so"] = stripped(pathlib.Path(library))
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
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    print(out)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
