"""The consumers as commands, and copies of the fixtures that can be damaged.

NODE and CC name the programs, with arguments if need be: CC="python -m ziglang cc".
"""

import hashlib
import json
import os
import shlex
import subprocess
from pathlib import Path

CONSUMERS = Path(__file__).resolve().parent
FIXTURES = CONSUMERS.parent / "fixtures"
NODE = shlex.split(os.environ.get("NODE", "node"))
CC = shlex.split(os.environ.get("CC", "cc"))
MANIFEST = json.loads((FIXTURES / "manifest.json").read_text())
OPERATORS = {
    "javascript": {case["operator"] for case in MANIFEST["cases"]},
    "c": {"linear_attention"},
}


def covered(case, language):
    accurate = case["dtype"] in ("float64", "float32")
    return accurate and case["error"] is None and case["operator"] in OPERATORS[language]


def javascript(folder):
    """The command that runs the JavaScript consumer, of which `folder` holds a copy."""
    return [*NODE, str(folder / "check.mjs")]


def c(folder):
    """The same for the C consumer, which is compiled for that."""
    program = folder / "check"
    warnings = ("-Wall", "-Wextra", "-pedantic", "-Werror")
    source = str(folder / "check.c")
    subprocess.run(
        [*CC, "-O0", "-std=c99", *warnings, source, "-o", str(program), "-lm"], check=True
    )
    return [str(program)]


PREPARE = {"javascript": javascript, "c": c}


def prepared(language, folder, alter=lambda source: source):
    for source in (CONSUMERS / language).iterdir():
        if source.suffix in (".mjs", ".c"):
            (folder / source.name).write_text(alter(source.read_text()))
    return PREPARE[language](folder)


def run(command, folder):
    return subprocess.run([*command, str(folder)], capture_output=True, text=True, timeout=120)


# --- a copy of the fixtures that holds a few cases, and can be damaged


class Copy:
    def __init__(self, folder, cases):
        self.folder = folder
        self.cases = json.loads(json.dumps(cases))
        (folder / "cases").mkdir(parents=True)
        for case in cases:
            (folder / case["file"]).write_bytes((FIXTURES / case["file"]).read_bytes())
        self.index()

    def index(self):
        """Writes the manifest, and the hash of everything."""
        (self.folder / "manifest.json").write_text(json.dumps({"cases": self.cases}))
        files = [self.folder / "manifest.json", *(self.folder / x["file"] for x in self.cases)]
        self.write_index({os.path.relpath(path, self.folder): path for path in files})

    def write_index(self, files):
        lines = [f"{sha256(path.read_bytes())}  {name}\n" for name, path in files.items()]
        (self.folder / "index.sha256").write_text("".join(lines))

    def tensor(self, name):
        """Where the bytes of a tensor of the only case are in its file."""
        path = self.folder / self.cases[0]["file"]
        data = path.read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        first, last = json.loads(data[8:start])[name]["data_offsets"]
        return path, slice(start + first, start + last)

    def overwrite(self, name, values):
        path, place = self.tensor(name)
        data = bytearray(path.read_bytes())
        data[place] = values(bytes(data[place]))
        path.write_bytes(data)


def sha256(data):
    return hashlib.sha256(data).hexdigest()
