#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build_info.sh VERSION [VERSIONS_FILE…]: prints build_info.h: DTCTL_VERSION from git's tags (or
# VERSION and the commit, or VERSION alone outside git), DTCTL_BUILD_DATE only from
# SOURCE_DATE_EPOCH, and DTCTL_THIRD_PARTY, one line per linked library and per applied patch.
set -euo pipefail
version=$1
if [ -f .version ]; then
    version=$(cat .version)
elif described=$(git --no-optional-locks describe --match 'v[0-9]*' --dirty 2>/dev/null); then
    version=${described#v}
elif commit=$(git --no-optional-locks describe --always --dirty 2>/dev/null); then
    version=$1-g$commit
fi
date=''
[ -z "${SOURCE_DATE_EPOCH-}" ] || date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)
printf '#define DTCTL_VERSION "%s"\n#define DTCTL_BUILD_DATE "%s"\n' "$version" "$date"
printf '#define DTCTL_THIRD_PARTY \\\n'
for versions in "${@:2}"; do
    [ ! -f "$versions" ] || sed 's/["\\]/\\&/g; s/.*/    "&\\n" \\/' "$versions"
done
echo '    ""'
