"""Checks that a built wheel holds the package, all of it, and nothing beside it."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "joblib"


def main(wheel: str) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.partition("/")[0] for name in names}
    strangers = {top for top in tops if top != "jobroom" and not top.endswith(".dist-info")}
    if strangers:
        sys.exit(f"{wheel} holds more than jobroom/: {sorted(strangers)}")
    wanted = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "jobroom").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if missing := wanted - names:
        sys.exit(f"{wheel} lacks {sorted(missing)}")
    print(f"{Path(wheel).name}: {len(names)} files, all of jobroom/ and nothing else")


main(sys.argv[1])
