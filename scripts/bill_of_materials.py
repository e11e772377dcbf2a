"""Prints the bill of materials of a release as SPDX 2.3 in JSON: its files and the libraries in them.

    bill_of_materials.py VERSION FOLDER LIBRARIES WINDOWS

LIBRARIES is the bundle's libraries.txt (a file, its source package and version in each line),
WINDOWS is scripts/windows.tsv. SOURCE_DATE_EPOCH is the time that the document states.
"""

import hashlib
import json
import os
import re
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

Item = dict[str, Any]


def identifier(*words: str) -> str:
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", "-".join(words))


def package(name: str, version: str, of: str) -> Item:
    """A library as Debian distributes it; its notice is in the archive that has it."""
    return {
        "SPDXID": identifier("Package", of, name),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{name}@{version.replace('+', '%2B')}?arch=source",
            }
        ],
    }


def linux_libraries(path: Path) -> list[Item]:
    lines = path.read_text().splitlines() if path.exists() else []
    sources = {(words[1], words[2]) for words in map(str.split, lines)}
    return [package(name, version, "linux") for name, version in sorted(sources)]


def windows_libraries(path: Path) -> list[Item]:
    rows = [line.split("\t") for line in path.read_text().splitlines() if line and line[0] != "#"]
    return [package(name, version, "windows") for name, version, _ in sorted(rows)]


def file_item(path: Path) -> Item:
    content = path.read_bytes()
    checksums = [
        {"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
        {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()},
    ]
    return {
        "SPDXID": identifier("File", path.name),
        "fileName": f"./{path.name}",
        "checksums": checksums,
        "licenseConcluded": "NOASSERTION",
        "licenseInfoInFiles": ["NOASSERTION"],
        "copyrightText": "NOASSERTION",
    }


def riffle(version: str, files: list[Item]) -> Item:
    hashes = sorted(item["checksums"][0]["checksumValue"] for item in files)
    code = hashlib.sha1("".join(hashes).encode()).hexdigest()
    return {
        "SPDXID": "SPDXRef-Package-riffle",
        "name": "riffle",
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": True,
        "packageVerificationCode": {"packageVerificationCodeValue": code},
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "licenseInfoFromFiles": ["NOASSERTION"],
        "copyrightText": "NOASSERTION",
    }


def relation(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def document(version: str, folder: Path, libraries: list[Item]) -> Item:
    files = [file_item(path) for path in sorted(folder.iterdir()) if path.is_file()]
    program = riffle(version, files)
    time = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc)
    own = program["SPDXID"]
    code = program["packageVerificationCode"]["packageVerificationCodeValue"]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"riffle-{version}",
        "documentNamespace": f"https://riffle.example/spdx/riffle-{version}-{code}",
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Organization: Riffle maintainers", "Tool: scripts/release"],
        },
        "packages": [program, *libraries],
        "files": files,
        "relationships": [
            relation("SPDXRef-DOCUMENT", "DESCRIBES", own),
            *(relation(own, "CONTAINS", item["SPDXID"]) for item in files),
            *(relation(own, "DEPENDS_ON", item["SPDXID"]) for item in libraries),
        ],
    }


def main() -> None:
    version, folder, linux, windows = sys.argv[1:]
    libraries = linux_libraries(Path(linux))
    if any(Path(folder).glob("*windows*")):
        libraries += windows_libraries(Path(windows))
    print(json.dumps(document(version, Path(folder), libraries), indent=2))


if __name__ == "__main__":
    main()
