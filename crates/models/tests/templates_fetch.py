"""Chat templates of published models, for templates.rs: python templates_fetch.py FOLDER.

Copies the templates of public collections, each under a licence of its own, to FOLDER, with git. Prints how many there are.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

# A repository, the folder of its templates, and what comes before their names.
COLLECTIONS = [
    ("ikawrakow/ik_llama.cpp", "models/templates", ""),
    ("axolotl-ai-cloud/axolotl", "src/axolotl/utils/chat_templates/templates", "axolotl-"),
    ("chujiezheng/chat_templates", "chat_templates", "ct-"),
    ("EricLBuehler/mistral.rs", "chat_templates", "mrs-"),
]
# A folder of clones that are there already, named OWNER+NAME/repo, or where all of them are.
HOST = sys.argv[2] if len(sys.argv) > 2 else "https://github.com"

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for name, under, prefix in COLLECTIONS:
    url = f"{HOST}/{name}" if "://" in HOST else str(Path(HOST, name.replace("/", "+"), "repo"))
    with tempfile.TemporaryDirectory() as clone:
        git = lambda *words: subprocess.run(["git", "-C", clone, *words], check=True, capture_output=True, text=True).stdout
        git("clone", "--quiet", "--depth", "1", "--no-checkout", "--filter=blob:none", url, ".")
        for path in git("ls-tree", "--name-only", "HEAD", under + "/").splitlines():
            path = Path(path)
            if path.suffix == ".json":
                text = json.loads(git("show", f"HEAD:{path}")).get("chat_template")
            else:
                text = git("show", f"HEAD:{path}") if path.suffix == ".jinja" else None
            if isinstance(text, str):
                (folder / f"{prefix}{path.stem}.jinja").write_text(text)
print(len(list(folder.glob("*.jinja"))), "templates")
