"""Packs what `release.sh` has built: archives, and what describes them.

    python3 package.py archive FOLDER VERSION TARGET PROGRAM     prints the archive's path
    cargo metadata | python3 package.py finish FOLDER VERSION    SHA256SUMS, the SBOM, recipes
"""

import gzip
import hashlib
import io
import json
import pathlib
import sys
import tarfile
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "../crates/python"))
sys.dont_write_bytecode = True
from wheel import stripped  # noqa: E402

PACKAGE = tomllib.loads((HERE / "../Cargo.toml").read_text())["workspace"]["package"]


def archive(folder: str, version: str, target: str, program: str) -> None:
    name = f"warpfold-{version}-{target}"
    built = pathlib.Path(program)
    files = {built.name: stripped(built)}
    for text in ("README.md", "LICENSE-MIT", "LICENSE-APACHE"):
        files[text] = (HERE / ".." / text).read_bytes()
    out = pathlib.Path(folder) / (name + (".zip" if "windows" in target else ".tar.gz"))
    # Times and owners are left out: the same content is the same archive.
    if out.suffix == ".zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
            for each, content in files.items():
                entry = zipfile.ZipInfo(f"{name}/{each}", (1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                packed.writestr(entry, content, compresslevel=9)
    else:
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as packed:
            for each, content in files.items():
                entry = tarfile.TarInfo(f"{name}/{each}")
                entry.size, entry.mode = len(content), 0o755 if each == built.name else 0o644
                packed.addfile(entry, io.BytesIO(content))
        out.write_bytes(gzip.compress(tar.getvalue(), 9, mtime=0))
    print(out)


def finish(folder: str, version: str) -> None:
    dist = pathlib.Path(folder)
    write(dist / f"warpfold-{version}.cdx.json", json.dumps(sbom(json.load(sys.stdin), version), indent=1) + "\n")
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(dist.glob(f"warpfold-{version}*"))}
    write(dist / "SHA256SUMS", "".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    write(dist / "warpfold.rb", formula(version, sums))
    write(dist / "Dockerfile", dockerfile(version))


def write(path: pathlib.Path, text: str) -> None:
    path.write_text(text)
    print(path)


def sbom(metadata: dict, version: str) -> dict:
    """A CycloneDX 1.6 document: the crates that the program and the Python package are built of, and their edges."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    built = lambda dep: any(kind["kind"] is None for kind in dep["dep_kinds"])
    edges = {id: sorted(dep["pkg"] for dep in node["deps"] if built(dep)) for id, node in nodes.items()}
    roots = [id for id, package in packages.items() if package["name"] in ("warpfold-cli", "warpfold-python")]
    seen, waiting = set(), list(roots)
    while waiting:
        id = waiting.pop()
        if id not in seen:
            seen.add(id)
            waiting += edges[id]
    url = lambda package: f"pkg:cargo/{package['name']}@{package['version']}"
    order = sorted(seen, key=lambda id: url(packages[id]))
    component = lambda package: {
        "type": "library",
        "bom-ref": url(package),
        "name": package["name"],
        "version": package["version"],
        "purl": url(package),
        "licenses": [{"expression": (package["license"] or "NOASSERTION").replace("/", " OR ")}],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "warpfold", "name": "warpfold", "version": version}},
        "components": [component(packages[id]) for id in order],
        "dependencies": [
            {"ref": "warpfold", "dependsOn": sorted(url(packages[id]) for id in roots)},
            *({"ref": url(packages[id]), "dependsOn": [url(packages[each]) for each in edges[id]]} for id in order),
        ],
    }


def formula(version: str, sums: dict[str, str]) -> str:
    """A formula of Homebrew for the archives that there are."""
    systems = {"macos": "apple-darwin", "linux": "unknown-linux-gnu"}
    processors = {"arm": "aarch64", "intel": "x86_64"}
    lines = []
    for system, suffix in systems.items():
        for processor, prefix in processors.items():
            name = f"warpfold-{version}-{prefix}-{suffix}.tar.gz"
            if name in sums:
                lines += [
                    f"  on_{system} do",
                    f"    on_{processor} do",
                    f'      url "{PACKAGE["repository"]}/releases/download/v{version}/{name}"',
                    f'      sha256 "{sums[name]}"',
                    "    end",
                    "  end",
                ]
    return "\n".join([
        "class Warpfold < Formula",
        '  desc "GPU computing in pure Rust, on an NVIDIA GPU or the virtual GPU"',
        f'  homepage "{PACKAGE["repository"]}"',
        f'  version "{version}"',
        '  license any_of: ["MIT", "Apache-2.0"]',
        *lines,
        "",
        "  def install",
        '    bin.install "warpfold"',
        "  end",
        "",
        "  test do",
        '    assert_match "right", shell_output("#{bin}/warpfold ladder reduce --size 1024 --device virtual")',
        "  end",
        "end",
        "",
    ])


def dockerfile(version: str) -> str:
    """An image of the archive; deploy/Dockerfile builds the program instead."""
    return f"""# syntax=docker/dockerfile:1
# The released program: docker build -f Dockerfile . in the folder of the release's files.
FROM debian:bookworm-slim
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
ARG TARGETARCH
RUN --mount=type=bind,target=/dist set -eu; \\
    case "$TARGETARCH" in amd64) cpu=x86_64 ;; arm64) cpu=aarch64 ;; *) exit 1 ;; esac; \\
    tar -xzf "/dist/warpfold-{version}-$cpu-unknown-linux-gnu.tar.gz" --strip-components=1 -C /usr/local/bin \\
        "warpfold-{version}-$cpu-unknown-linux-gnu/warpfold"; \\
    useradd --uid 10001 --no-create-home warpfold
USER 10001
EXPOSE 8000
ENTRYPOINT ["/usr/local/bin/warpfold"]
CMD ["serve", "--host", "0.0.0.0"]
"""


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("archive", "finish"):
        sys.exit(__doc__)
    {"archive": archive, "finish": finish}[sys.argv[1]](*sys.argv[2:])
