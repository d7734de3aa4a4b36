"""A copy of the fixtures folder with a few of its cases, to damage."""

import hashlib
import json

from linattn_spec.fixtures import fixtures_directory

FOLDER = fixtures_directory()
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())


def contents(ids):
    """The files, bytes by path; versions.json has the one list linattn-1."""
    by_id = {case["id"]: case for case in MANIFEST["cases"]}
    cases = [by_id[id] for id in ids]
    files = {case["file"]: (FOLDER / case["file"]).read_bytes() for case in cases}
    files["flags.json"] = (FOLDER / "flags.json").read_bytes()
    files["manifest.json"] = json.dumps({"cases": cases}).encode()
    files["versions.json"] = json.dumps({"linattn-1": list(ids)}).encode()
    return files | {"index.sha256": index(files)}


def index(files):
    lines = (f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in files.items())
    return "".join(lines).encode()


def make(folder, files):
    (folder / "cases").mkdir(parents=True)
    for path, data in files.items():
        (folder / path).write_bytes(data)


def hash_anew(folder):
    """Makes the index that of the files there are."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "index.sha256"]
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    (folder / "index.sha256").write_bytes(index(files))


def change_case(folder, **changes):
    """Changes properties of the first case."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["cases"][0].update(changes)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    hash_anew(folder)
