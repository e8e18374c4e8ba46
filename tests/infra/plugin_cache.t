#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One copy of AWS's provider serves all clusters: two commands that begin at the same time, one
# without a mirror, a plugin cache that was removed or is not to be trusted, a cache of the user's
# own. And which versions of Terraform are accepted. The provider is a stand-in: up ends after init.
source "${0%/*}/../lib.sh"
source "$SRC/tests/infra/terraform.sh"
terraform_needed
unset "${!AWS_@}" XDG_CACHE_HOME
export AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_EC2_METADATA_DISABLED=true

host=registry.terraform.io
[ "${TERRAFORM##*/}" = terraform ] || host=registry.opentofu.org
version=$(sed -n 's/.*version = "= \([0-9.]*\)".*/\1/p' "$SRC/infra/versions.tf")
platform=linux_$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
package=$host/hashicorp/aws/$version/$platform
store=$HOME/.cache/dtctl/${TERRAFORM##*/}
packed=mirror/$host/hashicorp/aws
mkdir -p "$packed"
python3 - "$packed/terraform-provider-aws_${version}_$platform.zip" "$version" <<'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as packed:
    program = zipfile.ZipInfo(f"terraform-provider-aws_v{sys.argv[2]}_x5")
    program.external_attr = 0o755 << 16
    packed.writestr(program, "#!/bin/sh\nexit 1\n")
END
sed -i "s|path = .*|path = \"$WORK/mirror\"|" terraform.rc

copies() { # of the provider, wherever they are
    find "$WORK" /dev/shm/"${WORK##*/}" -type f -name 'terraform-provider-aws_v*' 2>/dev/null |
        wc -l
}

begin() { # FOLDER [COMMAND…]: up; its errors are in FOLDER/err
    mkdir -p "$1"
    (
        cd "$1" || exit 1
        printf '[cluster]\nname = "%s"\nprovider = "aws"\n[aws]\nregion = "us-east-1"\n' "$1" \
            >dtctl.toml
        "${@:2}" dtctl up -y --operator-cidr 198.51.100.7/32 >err 2>&1
    )
}

ready() { # FOLDER WHAT: init went well there; what failed is the stand-in
    like "$(cat "$1/err")" 'error: .*(plugin|schema|Plugin)' "$2: up passes init"
    unlike "$(cat "$1/err")" '\(init\)' "$2: init does not fail"
}

link_of() { # FOLDER: where the provider of its cluster is
    readlink "$1/.dtctl/$1/terraform/infra/.terraform/providers/$package"
}

# ---- two at a time, and one without a mirror ----------------------------------------------------
begin one &
begin two &
wait
ready one 'two at a time'
ready two 'the second user'
is "$(copies)" 1 'there is one copy of the provider'
is "$(link_of one) $(link_of two)" "$store/$package $store/$package" \
    'both users have a link to the copy'
mv mirror away
begin three env TF_CLI_ARGS=-no-such-flag
ready three 'without a mirror'
is "$(copies)" 1 'there is no further copy'
search() { # FOLDER: gc, whose search has a root of its own
    (cd "$1" && dtctl gc >err 2>&1)
}
sweep_link_of() { # FOLDER: where the provider of its search is
    readlink "$1/.dtctl/$1/terraform/infra/sweep/.terraform/providers/$package"
}
search three
ready three 'a search without a mirror'
is "$(copies) $(sweep_link_of three)" "1 $store/$package" 'a search uses the copy, too'
is "$(find "$store" -perm /022 ! -type l)" '' 'other users cannot change the copy'

# ---- what can happen to the store ---------------------------------------------------------------
rm -r "$store"
mv away mirror
search three
ready three 'a search after the store was removed'
is "$(copies) $(sweep_link_of three)" "1 $store/$package" 'a search makes a removed copy again'
rm -r "$store"
begin three
ready three 'after the store was removed'
is "$(copies) $(link_of three)" "1 $store/$package" 'a removed copy is made again'
chmod 777 "$store"
begin four
ready four 'a store that others may write to'
is "$(link_of four)" '' 'an unsafe copy is not used'
chmod 700 "$store"
rm -r four "${store:?}/$host"
mkdir -p "$store/$package"
begin four
ready four 'a store with something else in it'
rm -rf four "$store"
if [ "$(stat -c %d /dev/shm 2>/dev/null)" != "$(stat -c %d .)" ] && mkdir -p "/dev/shm/${WORK##*/}"
then
    begin four env XDG_CACHE_HOME="/dev/shm/${WORK##*/}"
    ready four 'a store on another file system'
    is "$(link_of four)" "/dev/shm/${WORK##*/}/dtctl/${TERRAFORM##*/}/$package" \
        'a second store has the copy'
    rm -r "/dev/shm/${WORK##*/}" four
fi

# ---- a cache of the user's own ------------------------------------------------------------------
rm -rf one two three
mkdir cache
begin one env TF_PLUGIN_CACHE_DIR="$WORK/cache"
ready one "a user's own cache"
is "$(link_of one)" "$WORK/cache/$package" "the user's own cache is used"
begin two env TF_PLUGIN_CACHE_DIR="$WORK/cache"
ready two 'the next cluster'
is "$(copies) $(link_of two) $(find "$store" 2>/dev/null)" "1 $WORK/cache/$package " \
    "the user's cache is used instead of dtctl's"

# ---- versions -----------------------------------------------------------------------------------
mkdir bin
found() { # VERSION: of the program on PATH
    printf '#!/bin/sh\necho %s\n' "'{\"terraform_version\": \"$1\"}'" >bin/terraform
    chmod +x bin/terraform
}
for one in 0.13.7 1.6.6 2.0.0; do
    found $one
    begin old env PATH="$WORK/bin:$PATH"
    like "$(cat old/err)" "error: '$WORK/bin/terraform' is version $one; dtctl needs 1.7 or newer" \
        "$one is refused by its name"
done
found 1.9.8
DTCTL_AWS_STATE=s3://states/of/us begin old env PATH="$WORK/bin:$PATH"
like "$(cat old/err)" 'is version 1.9.8; dtctl needs 1.10 .*with aws.state' 'state in S3 needs more'
found ''
begin old env PATH="$WORK/bin:$PATH"
like "$(cat old/err)" 'does not say which version' 'a program that is something else'
wanted=$(grep -hE '^ +required_version' "$SRC"/infra/{,sweep/}versions.tf | sort -u)
is "$wanted" '  required_version = ">= 1.7, < 2.0"' 'the sources say so, too'
done_testing
