#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The user data of a node: rendered by Terraform, it holds every file unchanged, no value can break
# it, it fits, and two generations of cloud-init accept it.
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloudinit/render.sh" || exit 1
command -v terraform >/dev/null || command -v tofu >/dev/null ||
    skip_all 'user data is rendered by terraform or tofu, and neither is on PATH'

ssh-keygen -q -t rsa -b 4096 -N '' -C someone@a-long-host-name.example -f login
ssh-keygen -q -t ed25519 -N '' -f host
given=(node_name=node-in-a-long-name-0 ssh_public_key=@login.pub host_key_private=@host
    host_key_public=@host.pub)
ok 'Terraform renders it' render "${given[@]}"
render "${given[@]}" >user.yaml

# inside FILE EXPRESSION: what Python says of the document d.
inside() {
    python3 -c 'import sys, yaml
from hashlib import sha256
d = yaml.safe_load(open(sys.argv[1]))
files = {f["path"]: f for f in d["write_files"]}
print(eval(sys.argv[2]))' "$1" "$2"
}
is "$(head -n 1 user.yaml)" '#cloud-config' 'the user data is a cloud-config'
python3 -c 'import yaml' 2>/dev/null || bail_out 'python3-yaml is missing; run make setup'

# ---- what is in it -------------------------------------------------------------------------------
for file in "$SRC"/cloud-init/files/*; do
    name=${file##*/}
    case $name in
    *.service) echo "0644 /etc/systemd/system/$name $(sha256sum <"$file")" ;;
    *) echo "0755 /usr/local/lib/dtctl/$name $(sha256sum <"$file")" ;;
    esac
done | sort >want
inside user.yaml '"\n".join(" ".join((f["permissions"], path,
    sha256(f["content"].encode()).hexdigest(), " -")) for path, f in files.items()
    if path != "/etc/dtctl/node.conf")' | sort >got
ok 'every file is there, unchanged, and no other' diff want got
is "$(grep -c . want)" "$(find "$SRC/cloud-init/files" -type f | wc -l)" \
    'all files are in the user data'
is "$(inside user.yaml 'd["runcmd"]')" \
    "[['sh', '-c', '/usr/local/lib/dtctl/setup || shutdown -P +60']]" 'one command is run'
is "$(inside user.yaml 'd["ssh_pwauth"], d["disable_root"]')" '(False, True)' \
    'there is no login by password and none as root'
is "$(inside user.yaml 'd["ssh_keys"]["ed25519_private"]')" "$(cat host)" 'the host key is written'
is "$(inside user.yaml '"packages" in d or "bootcmd" in d or "package_update" in d')" False \
    'no package is installed'
is "$(inside user.yaml 'files["/etc/dtctl/node.conf"]["content"]')" "node=node-in-a-long-name-0
user=ubuntu
ttl_s=43200
idle_s=3600
closed_metadata=true
bootstrap_key=$(cat host.pub)
config_hash=$(printf '0%.0s' {1..64})" 'node.conf is written'
units=$(inside user.yaml '"".join(f["content"] for f in d["write_files"])' |
    sed -n 's,^ExecStart=/usr/local/lib/dtctl/\([a-z-]*\).*,\1,p' | sort -u)
for name in $units; do
    ok "the program of the units exists: $name" test -x "$SRC/cloud-init/files/$name"
done
if command -v systemd-analyze >/dev/null; then
    is "$(systemd-analyze verify --man=no --root="$WORK" "$SRC"/cloud-init/files/*.service 2>&1 |
        grep -ciE 'unknown|invalid|failed to parse|missing')" 0 'systemd understands the units'
else
    skip 1 'systemd-analyze is not installed'
fi

# ---- what cannot break it ------------------------------------------------------------------------
hostile=$'x"\n  - y: {${z}} %{if} \\ \' #\t'
render "ssh_user=$hostile" "ssh_public_key=$hostile" "host_key_private=$hostile" \
    "host_key_public=$hostile" >hostile.yaml
is "$(inside hostile.yaml 'list(d), len(files)')" "$(inside user.yaml 'list(d), len(files)')" \
    'no value changes the shape of the document'
render host_key_private= host_key_public= >bare.yaml
is "$(inside bare.yaml '"ssh_keys" in d')" False 'without a host key the node makes its own'

# ---- size ----------------------------------------------------------------------------------------
render "${given[@]}" >user.yaml
rendered_packed | base64 -d >user.gz
is "$(gunzip <user.gz | cmp - user.yaml && echo same)" same 'the user data is sent compressed'
size=$(stat -c %s user.gz)
diag "$size of at most 16384 bytes"
result "$((size < 15872))" 'the user data is half a kilobyte below the limit'

# ---- cloud-init ----------------------------------------------------------------------------------
modules=usr/lib/python3/dist-packages
schema() { # TREE FILE
    # shellcheck disable=SC2317 # called by run
    PYTHONPATH=$1/$modules PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -c '
import sys
from cloudinit.cmd.main import main
sys.argv[0] = "cloud-init"
sys.exit(main())' schema --config-file "$2"
}
while read -r tree; do
    if [ ! -d "$tree/$modules/cloudinit" ] ||
        ! /usr/bin/python3 -c 'import jsonschema, configobj' 2>/dev/null; then
        skip 5 "cloud-init is not in $tree, or its modules are missing; make setup fetches both"
        continue
    fi
    version=$(sed -n 's/^__VERSION__ = "\([0-9.]*\)".*/\1/p' "$tree/$modules/cloudinit/version.py")
    for file in user bare; do
        run schema "$tree" $file.yaml
        is "$status" 0 "cloud-init $version accepts $file.yaml" || diag "$out" "$err"
        unlike "$out$err" '[Dd]eprecat' 'cloud-init reports nothing deprecated'
    done
    sed 's/^locale:.*/locale: false/; s/^ssh_genkeytypes/ssh_genkeytypos/' user.yaml >wrong.yaml
    run schema "$tree" wrong.yaml
    like "$status" '^[1-9]' "cloud-init $version refuses a wrong one"
done < <("$SRC/tests/cloudinit/packages" path)
done_testing
