#!/usr/bin/env python3
"""The book with the program in it: a folder of static files, which any host can serve and a browser opens from a disk.

    deploy/web.py [FOLDER]        target/web unless said; `rustup target add wasm32-unknown-unknown` comes before
    deploy/web.py --quick FOLDER  for tests: compiled in a third of the time, and three times as large

Needs Rust and Python's standard library. WARPFOLD_WASM names a module that is built already.
"""

import base64
import gzip
import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "docs/book/src"
PAGE = ROOT / "crates/web/page"
SOURCE = "https://github.com/warpfold/warpfold/blob/main"
MAX_MODULE_BYTES = 4_000_000
# Crates to which the manifest gives a level of its own, and which a quick module does not optimize either.
LEVELS_OF_THEIR_OWN = ["warpfold-collectives", "warpfold-ladders", "warpfold-report", "clap_builder", "cpp_demangle"]
# Subcommands that a page has (crates/web/src/lib.rs), and a word that one thread cannot follow.
COMMANDS = {"run", "devices", "ladder", "inspect", "sim", "advise", "replay", "exercise", "draw"}
NOT_IN_A_PAGE = {"all_reduce", "--devices"}


def module(is_quick: bool) -> bytes:
    """The program as a module, small or soon: what a launch waits for is the interpreter, whose level the manifest sets."""
    if named := os.environ.get("WARPFOLD_WASM"):
        return Path(named).read_bytes()
    target = "wasm32-unknown-unknown"
    environment = {
        **os.environ,
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0" if is_quick else "s",
        "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS": "-C strip=symbols" + (" -D warnings" if is_quick else ""),
    }
    command = ["cargo", "build", "--locked", "--release", "--target", target, "-p", "warpfold-web"]
    if is_quick:
        command += [f"--config=profile.release.package.{crate}.opt-level=0" for crate in LEVELS_OF_THEIR_OWN]
        # What a page of the book runs is small: an interpreter that is soon compiled is soon done.
        command += [f"--config=profile.release.package.warpfold-sim.{each}" for each in ["opt-level=1", "codegen-units=16"]]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return (folder / target / "release/warpfold_web.wasm").read_bytes()


def slug(text: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"`|\[|\]\([^)]*\)", "", text).lower()).strip().replace(" ", "-")


def link(target: str) -> str:
    if target.startswith(("http:", "https:", "#")):
        return target
    path, _, anchor = target.partition("#")
    anchor = f"#{anchor}" if anchor else ""
    if path.startswith("pictures/"):
        return path
    if (BOOK / path).resolve().parent == BOOK and path.endswith(".md"):
        return path.removesuffix(".md") + ".html" + anchor
    return f"{SOURCE}/{(BOOK / path).resolve().relative_to(ROOT)}{anchor}"


def inline(text: str) -> str:
    """Code, pictures, links and emphasis of a line of Markdown."""
    kept: list[str] = []

    def keep(made: str) -> str:
        kept.append(made)
        return f"\0{len(kept) - 1}\0"

    text = re.sub(r"(`+)(.+?)\1", lambda m: keep(f"<code>{html.escape(m[2].strip(), quote=False)}</code>"), text)
    text = html.escape(text, quote=False)
    text = re.sub(r"!\[([^\]]*)\]\(([^)\s]+)\)",
                  lambda m: keep(f'<img src="{link(m[2])}" alt="{html.escape(m[1])}" loading="lazy">'), text)
    text = re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", lambda m: keep('<a href="' + link(m[2]) + '">') + m[1] + "</a>", text)
    text = re.sub(r"&lt;(https?://[^\s&]+)&gt;", r'<a href="\1">\1</a>', text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    text = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"<em>\1</em>", text)
    while "\0" in text:
        text = re.sub(r"\0(\d+)\0", lambda m: kept[int(m[1])], text)
    return text


def is_runnable(command: str) -> bool:
    words = command.split()
    return words[1] in COMMANDS and not NOT_IN_A_PAGE & set(words)


def code(info: str, lines: list[str]) -> str:
    language = info.split(",")[0]
    if language == "rust":
        # What rustdoc compiles and does not show.
        lines = [line for line in lines if not re.match(r"#( |$)", line)]
    block = f"<pre><code>{html.escape(chr(10).join(lines), quote=False)}</code></pre>"
    if language != "console":
        return block
    joined = "\n".join(lines).replace("\\\n", " ").split("\n")
    command = re.sub(r"\s+", " ", joined[0].removeprefix("$ "))
    if not is_runnable(command):
        return block
    return f'<div class="runnable" data-command="{html.escape(command)}">{block}</div>'


def table(lines: list[str]) -> str:
    def cells(line: str) -> list[str]:
        return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]

    head = "".join(f"<th>{inline(cell)}</th>" for cell in cells(lines[0]))
    rows = ("".join(f"<td>{inline(cell)}</td>" for cell in cells(line)) for line in lines[2:])
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def exercises() -> dict[str, str]:
    """The exercises that the judge has, with their tasks."""
    files = ((ROOT / f"crates/ladders/src/exercise/{name}.rs").read_text() for name in ["list", "steps", "tiles"])
    found = re.findall(r'\bname: "([\w-]+)",\s+task: "((?:[^"\\]|\\.)*)"', "".join(files))
    return {name: re.sub(r"\\\n\s*", "", task) for name, task in found}


def solve(name: str) -> str:
    return f'<div class="solve" data-exercise="{name}"></div>'


def exercise_page() -> str:
    body = "".join(f'<h2 id="{name}">{name}</h2><p>{inline(task)}.</p>{solve(name)}' for name, task in exercises().items())
    return "<h1>Exercises</h1><p>Each takes PTX, written by hand or by a compiler. The same exercises in Rust are for a terminal: " \
        f"<code>warpfold exercise list</code>.</p>{body}"


def rendered(text: str) -> str:
    """A chapter: the Markdown that the book uses, and nothing more."""
    lines, made, i = text.split("\n"), [], 0
    starts = re.compile(r"#+ |```|\||[-*] |\d+\. |<")
    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
        elif line.startswith("```"):
            end = next(j for j in range(i + 1, len(lines)) if lines[j].startswith("```"))
            made.append(code(line[3:].strip(), lines[i + 1 : end]))
            i = end + 1
        elif heading := re.match(r"(#+) (.*)", line):
            level, words = len(heading[1]), heading[2]
            made.append(f'<h{level} id="{slug(words)}">{inline(words)}</h{level}>')
            exercise = re.fullmatch(r"Exercise: ([\w-]+)", words)
            if exercise and exercise[1] in exercises():
                made.append(solve(exercise[1]))
            i += 1
        elif line.startswith("|"):
            end = next((j for j in range(i, len(lines)) if not lines[j].startswith("|")), len(lines))
            made.append(table(lines[i:end]))
            i = end
        elif re.match(r"[-*] |\d+\. ", line):
            items: list[str] = []
            while i < len(lines) and (re.match(r"[-*] |\d+\. |  +\S", lines[i])):
                if item := re.match(r"(?:[-*]|\d+\.) +(.*)", lines[i]):
                    items.append(item[1])
                else:
                    items[-1] += " " + lines[i].strip()
                i += 1
            tag = "ol" if line[0].isdigit() else "ul"
            made.append(f"<{tag}>{''.join(f'<li>{inline(item)}</li>' for item in items)}</{tag}>")
        elif line.startswith("<"):
            made.append(line)
            i += 1
        else:
            end = i + 1
            while end < len(lines) and lines[end].strip() and not starts.match(lines[end]):
                end += 1
            made.append(f"<p>{inline(' '.join(lines[i:end]))}</p>")
            i = end
    return "\n".join(made)


def contents() -> list[tuple[str, list[tuple[str, str]]]]:
    """The parts of the book with their chapters."""
    parts: list[tuple[str, list[tuple[str, str]]]] = []
    for line in (BOOK / "SUMMARY.md").read_text().split("\n"):
        if part := re.match(r"# (.*)", line):
            parts.append((part[1], []))
        elif chapter := re.match(r"- \[(.*)\]\((.*)\.md\)", line):
            parts[-1][1].append((chapter[1], chapter[2]))
    return [(name, chapters) for name, chapters in parts if chapters]


def page(title: str, name: str, body: str, scripts: list[str]) -> str:
    def entry(text: str, file: str) -> str:
        current = ' aria-current="page"' if file == name else ""
        return f'<li><a href="{file}.html"{current}>{inline(text)}</a></li>'

    parts = "".join(f"<h2>{part}</h2><ul>{''.join(entry(*chapter) for chapter in chapters)}</ul>" for part, chapters in contents())
    menu = f'<ul>{entry("warpfold", "index")}{entry("Playground", "playground")}{entry("Exercises", "exercises")}</ul>{parts}'
    tags = "".join(f'<script src="{script}"></script>' for script in scripts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="style.css"></head>'
        f'<body><nav><details open><summary>Contents</summary>{menu}</details></nav>\n<main>{body}</main>'
        '<script>if (innerWidth < 960) document.querySelector("nav details").open = false;</script>'
        f"{tags}</body></html>\n"
    )


def used_files() -> tuple[dict[str, str], dict[str, list[str]]]:
    """Files of the tree that commands of the pages read, and for PTX the sources beside it that it names."""
    text = "".join(path.read_text() for path in [*BOOK.glob("*.md"), PAGE / "playground.js"])
    named = set(re.findall(r"(?:crates|fixtures)/[\w./-]+\.(?:ptx|jsonl)", text))
    files, beside = {}, {}
    for path in sorted(path for path in named if (ROOT / path).is_file()):
        files[path] = (ROOT / path).read_text()
        sources = {Path(name).name for name in re.findall(r'\.file\s+\d+\s+"([^"]+)"', files[path])}
        found = [(Path(path).parent / name).as_posix() for name in sorted(sources)]
        beside[path] = [source for source in found if (ROOT / source).is_file()]
        files |= {source: (ROOT / source).read_text() for source in beside[path]}
    return files, beside


def main() -> None:
    is_quick = sys.argv[1:2] == ["--quick"]
    named = sys.argv[2:] if is_quick else sys.argv[1:]
    folder = Path(named[0]) if named else ROOT / "target/web"
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    packed = gzip.compress(module(is_quick), 1 if is_quick else 9, mtime=0)
    if len(packed) > MAX_MODULE_BYTES and not is_quick:
        sys.exit(f"error: the program has {len(packed)} bytes compressed, more than {MAX_MODULE_BYTES}")
    files, beside = used_files()
    written = {
        "program.js": f'"use strict";\nconst WARPFOLD_PROGRAM = "{base64.b64encode(packed).decode()}";\n'
        f"const WARPFOLD_WORKER = {json.dumps((PAGE / 'worker.js').read_text())};\n",
        "files.js": f'"use strict";\nconst WARPFOLD_FILES = {json.dumps(files)};\nconst WARPFOLD_BESIDE = {json.dumps(beside)};\n',
        "playground.html": page("Playground", "playground", (PAGE / "playground.html").read_text(), ["run.js", "playground.js"]),
        "exercises.html": page("Exercises", "exercises", exercise_page(), ["run.js"]),
        "index.html": page("warpfold", "index", (PAGE / "index.html").read_text(), ["run.js"]),
    }
    for name in ["run.js", "playground.js", "style.css"]:
        written[name] = (PAGE / name).read_text()
    for _, chapters in contents():
        for title, name in chapters:
            written[f"{name}.html"] = page(title, name, rendered((BOOK / f"{name}.md").read_text()), ["run.js"])
    for picture in (BOOK / "pictures").glob("*.svg"):
        written[f"pictures/{picture.name}"] = picture.read_text()
    for name, text in written.items():
        (folder / name).write_text(text)
    size = sum(len(text.encode()) for text in written.values())
    print(f"wrote {len(written)} files of {size / 1e6:.1f} MB to {folder}; the program has {len(packed) / 1e6:.2f} MB compressed")


if __name__ == "__main__":
    main()
