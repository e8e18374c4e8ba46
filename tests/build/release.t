#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make release refuses what is not ready and leaves no tag behind; what it writes is complete. The
# script runs in a small repository of its own, whose build takes a moment.
source "${0%/*}/../lib.sh"
export GIT_CONFIG_GLOBAL=$WORK/gitconfig GIT_CONFIG_NOSYSTEM=1
git config --file "$GIT_CONFIG_GLOBAL" user.name tester
git config --file "$GIT_CONFIG_GLOBAL" user.email tester@example.org
git config --file "$GIT_CONFIG_GLOBAL" init.defaultBranch main

mkdir -p repo/.ci repo/lib/third_party && cd repo || exit 1
cp "$SRC/.ci/release" .ci/
cp "$SRC"/lib/third_party/{sbom,dist,build_info.sh,pins,*.md} lib/third_party/
cp -r "$SRC/lib/third_party/patches" lib/third_party/
cat >Makefile <<'END'
VERSION ?= 0.1.0
DIST ?= dist
dist:
	@lib/third_party/dist $(VERSION) $(DIST)
programs:
	@mkdir -p bin && for p in dtctl dtrun; do { echo $$p; cat .version $(EXTRA); } > bin/$$p; done
END
# The libraries that this stand-in has finished were made from what is pinned.
cat >lib/third_party/deps <<'END'
#!/bin/sh
echo "$PWD/deps${2:+-$2}"
END
chmod +x lib/third_party/deps
mkdir deps deps-curl
touch deps{,-curl}/versions
printf '/dist/\n/bin/\n/deps/\n/deps-curl/\n' >.gitignore
printf '%s\n\n' '# Changes' '## Unreleased' '### Added' '- something' '## 0.1.0' '- the first one' \
    >CHANGELOG.md
git init -q && git add -A && git commit -qm 'all: begin'

refused() { # VERSION PATTERN DESCRIPTION
    run .ci/release "$1"
    is "$status:$(git tag)" 1: "$3: the release is refused and no tag is made"
    like "$err" "$2" "$3: the error has the reason"
}
refused 1.2 'no version of three numbers' 'a version that is none'
refused '' 'no version' 'no version at all'
refused 0.2.0 "no entry below '## 0.2.0'" 'a version without a CHANGELOG entry'
sed -i 's/^## Unreleased/## 0.2.0/' CHANGELOG.md
refused 0.2.0 'the working tree has changes' 'uncommitted changes'
git commit -qam 'changelog: 0.2.0'
# The path is in the program: two folders give two programs.
# shellcheck disable=SC2016 # make's variable
sed -i 's/\$(EXTRA)/; pwd/' Makefile && git commit -qam 'build: not reproducible'
refused 0.2.0 'dtctl differs between two builds' 'a build that is not reproducible'
git revert --no-edit HEAD >/dev/null
for folder in deps deps-curl; do
    echo 'lib-debian patches 1.2-1+deb13u3 0 (later than pinned)' >$folder/versions
    refused 0.2.0 'takes pinned patches only' "patches later than pinned in $folder"
    : >$folder/versions
done

run .ci/release 0.2.0
is "$status" 0 'a release that is ready is made' || diag "$err"
is "$(git tag)" v0.2.0 'a release has a tag'
is "$(cd dist && echo *)" \
    'SHA256SUMS dtctl dtctl-0.2.0.spdx.json dtctl-0.2.0.tar.gz dtrun' 'a release has all its files'
ok 'SHA256SUMS holds' bash -c 'cd dist && sha256sum --strict -c SHA256SUMS'
is "$(wc -l <dist/SHA256SUMS)" 4 'SHA256SUMS has every file'
like "$(cat dist/dtctl)" '0.2.0$' 'the programs have the version'
run .ci/release 0.2.0
is "$status:$(git tag)" 1:v0.2.0 'a second release of one version is refused, and the tag stays'
like "$err" 'exists already' 'the error says that the tag exists'

cat >spdx.py <<'END'
import json, sys
d = json.load(open(sys.argv[1], encoding="utf-8"))
assert d["spdxVersion"] == "SPDX-2.3" and d["dataLicense"] == "CC0-1.0"
by_id = {p["SPDXID"]: p for p in d["packages"]}
assert len(by_id) == len(d["packages"])
for p in by_id.values():
    assert p["licenseDeclared"] and p["versionInfo"] and p["downloadLocation"], p
for r in d["relationships"]:
    for end in (r["spdxElementId"], r["relatedSpdxElement"]):
        assert end in by_id or end == "SPDXRef-DOCUMENT", r
linked = {r["relatedSpdxElement"] for r in d["relationships"]
          if r["relationshipType"] == "STATIC_LINK"}
sums = {c["checksumValue"] for p in by_id.values() for c in p.get("checksums", [])}
for line in open(sys.argv[2], encoding="utf-8"):
    name, *rest = line.split()
    if name == "#" or name.startswith("cuda-") or len(rest) != 4:
        continue
    assert "SPDXRef-" + name in by_id, name
    assert name.endswith("-debian") or "SPDXRef-" + name in linked, name
    assert rest[1] in sums or rest[3] == "-", line
assert "SPDXRef-musl" in linked
END
ok 'the SPDX list has every pinned library, with hash and licence' \
    python3 spdx.py dist/dtctl-0.2.0.spdx.json lib/third_party/pins
sed -i '/^- SPDX:/d' lib/third_party/zstd.md
run lib/third_party/sbom 0.2.0
is "$status" 1 'a library without a licence is an error'
like "$err" 'zstd.md has no line' 'the error names the file of licences'
done_testing
