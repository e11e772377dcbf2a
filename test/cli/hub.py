"""Model hubs on a server of web.py, made from their public documentation: Hugging Face's API and files
(huggingface.co/docs/hub/api), ollama's registry (OCI distribution specification), ModelScope's API. No real hub was
asked. What a test wants wrong, it overwrites in `server.answers`."""

import hashlib
import json
import urllib.parse

from web import ranged, whole


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def document(value, **headers):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return whole(data, Content_Type="application/json", **headers)


def refuse(status, **headers):
    return lambda request: request.head(status, Content_Length=0, **headers)


class Hub:
    def __init__(self, server):
        self.server, self.answers = server, server.answers

    def tree(self, repo, revision="main"):
        return "/api/models/%s/tree/%s?recursive=1" % (repo, revision)

    def file(self, repo, path, revision="main"):
        return "/%s/resolve/%s/%s" % (repo, revision, urllib.parse.quote(path))

    def entry(self, path, data, large=True, **changes):
        entry = {"type": "file", "oid": "1" * 40, "size": len(data), "path": path}
        if large:
            entry["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": 134}
        return {**entry, **changes}

    def huggingface(self, repo, files, revision="main", extra=()):
        """A repository of {path: data}; files that are no models are not in LFS."""
        entries = [self.entry(path, data, path.endswith((".gguf", ".safetensors"))) for path, data in files.items()]
        self.answers[self.tree(repo, revision)] = document([{"type": "directory", "path": "more", "size": 0},
                                                            *entries, *extra])
        for path, data in files.items():
            self.answers[self.file(repo, path, revision)] = ranged(data)

    def manifest(self, data, *more, kind="model"):
        layers = [{"mediaType": "application/vnd.ollama.image." + kind, "digest": "sha256:" + sha256(data),
                   "size": len(data)},
                  {"mediaType": "application/vnd.ollama.image.params", "digest": "sha256:" + "1" * 64, "size": 2}, *more]
        return {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
                "config": {"digest": "sha256:" + "2" * 64, "size": 3}, "layers": layers}

    def ollama(self, name, tag, data, owner="library"):
        self.answers["/v2/%s/%s/manifests/%s" % (owner, name, tag)] = document(self.manifest(data))
        self.answers["/v2/%s/%s/blobs/sha256:%s" % (owner, name, sha256(data))] = ranged(data)

    def modelscope(self, repo, files):
        entries = [{"Type": "blob", "Path": path, "Name": path, "Size": len(data), "Sha256": sha256(data)}
                   for path, data in files.items()]
        self.answers["/api/v1/models/%s/repo/files?Revision=master&Recursive=True" % repo] = document(
            {"Code": 200, "Success": True, "Data": {"Files": [{"Type": "tree", "Path": "more", "Size": 0}, *entries]}})
        for path, data in files.items():
            self.answers["/models/%s/resolve/master/%s" % (repo, path)] = ranged(data)
