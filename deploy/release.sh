#!/bin/bash
# Makes all that a release consists of, in target/dist (or DIST): for each target an archive of the program and the wheel
# that carries it, then checksums, the list of what is in it (SBOM), and recipes for Homebrew and Docker.
#
#   deploy/release.sh                                 # for this machine
#   deploy/release.sh aarch64-unknown-linux-gnu …     # for these targets of rustc, where they are installed
#   deploy/release.sh --built                         # of what is in target/release: nothing is built
#
# Needs Rust, git and python3. Where python3 has the package `ziglang`, zig links programs of Linux for glibc 2.28 (RHEL 8,
# Debian 10); else they need the glibc of this machine. Either way the name of the wheel says which one they need.
set -euo pipefail
cd "$(dirname "$0")/.."

root=${CARGO_TARGET_DIR:-target}
dist=${DIST:-$root/dist}
host=$(rustc -vV | sed -n 's/^host: //p')
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# What `warpfold --version` says beside its number.
WARPFOLD_COMMIT=$(git rev-parse --short=10 HEAD)
git diff --quiet HEAD || WARPFOLD_COMMIT+=+changes
export WARPFOLD_COMMIT
mkdir -p "$dist"

# The linker of a target of Linux, for an old glibc.
zig_linker() {
    local name=$root/zig-linker-$1
    cat >"$name" <<END
#!/bin/bash
# rustc names the target and GCC's library of unwinding; zig has its own names for both.
arguments=()
for argument; do
    case \$argument in
    --target=* | -m64) ;;
    -lgcc_s) arguments+=(-lunwind) ;;
    *) arguments+=("\$argument") ;;
    esac
done
exec python3 -m ziglang cc -target ${1%%-*}-linux-gnu.2.28 "\${arguments[@]}"
END
    chmod +x "$name"
    realpath "$name"
}

package() {
    local target=$1 folder=$2 program=warpfold library=libwarpfold_python.so platform=()
    case $target in
    *-windows-*) program=warpfold.exe library=warpfold_python.dll platform=(--platform win_amd64) ;;
    aarch64-apple-darwin) library=libwarpfold_python.dylib platform=(--platform macosx_11_0_arm64) ;;
    x86_64-apple-darwin) library=libwarpfold_python.dylib platform=(--platform macosx_10_12_x86_64) ;;
    esac
    python3 crates/python/wheel.py "$folder/$library" "$dist" --program "$folder/$program" "${platform[@]}"
    python3 deploy/package.py archive "$dist" "$version" "$target" "$folder/$program"
}

targets=("$@")
if [ "${1:-}" = --built ]; then
    package "$host" "$root/release"
    targets=()
elif [ $# = 0 ]; then
    targets=("$host")
fi
for target in "${targets[@]}"; do
    if [[ $target == *-linux-gnu ]] && python3 -c 'import ziglang' 2>/dev/null; then
        name=${target^^}
        export "CARGO_TARGET_${name//-/_}_LINKER=$(zig_linker "$target")"
    fi
    cargo build --locked --release --target "$target" -p warpfold-cli -p warpfold-python
    package "$target" "$root/$target/release"
done
cargo metadata --locked --format-version 1 | python3 deploy/package.py finish "$dist" "$version"
