"""Licences and sources of all dependencies, by `deny.toml`: reads `cargo metadata` from standard input."""

import json
import re
import sys

text = open("deny.toml").read()
allowed = set(re.findall(r'^    "([^"]+)"', text, re.MULTILINE))


def is_allowed(expression: str) -> bool:
    """An SPDX expression: one of the alternatives, all of whose parts are allowed."""
    expression = expression.replace("/", " OR ").replace("(", " ").replace(")", " ")
    parts = lambda alternative: [part.strip() for part in alternative.split(" AND ")]
    return any(all(part in allowed for part in parts(alternative)) for alternative in expression.split(" OR "))


bad = []
packages = json.load(sys.stdin)["packages"]
for package in packages:
    name = f"{package['name']} {package['version']}"
    if package["source"] is None:
        continue
    if not package["source"].startswith("registry+"):
        bad.append(f"{name}: comes from {package['source']}")
    if not is_allowed(package["license"] or ""):
        bad.append(f"{name}: licence {package['license']}")
print(f"{len(packages)} packages, {len(bad)} with a licence or a source that deny.toml does not allow")
print("\n".join(bad))
sys.exit(bool(bad))
