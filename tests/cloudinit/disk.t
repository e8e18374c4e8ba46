#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The local disks of a node: which are taken, on lsblk's words about real machines; and on loop
# devices, that what is taken becomes a file system and what holds anything is left alone.
# shellcheck disable=SC2016 # the inner shells expand them
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloudinit/scripts.sh" || exit 1
fresh_node
node_conf node=node0 user=root

# ---- which ---------------------------------------------------------------------------------------
store='Amazon EC2 NVMe Instance Storage'
# disk NAME [KEY=VALUE…]: a line in the format of lsblk; by default an instance store disk.
disk() {
    local -A has=([TYPE]=disk [MODEL]=$store [SIZE]=1900000000000)
    local pair key line="NAME=\"$1\""
    for pair in "${@:2}"; do has[${pair%%=*}]=${pair#*=}; done
    for key in PKNAME TYPE MODEL FSTYPE LABEL PTTYPE MOUNTPOINT SIZE; do
        line+=" $key=\"${has[$key]-}\""
    done
    echo "$line"
}
blank() {
    within disk 'disk_blank' | xargs
}
root_disk="$(disk nvme0n1 'MODEL=Amazon Elastic Block Store' PTTYPE=gpt)
$(disk nvme0n1p1 PKNAME=nvme0n1 TYPE=part MODEL= FSTYPE=ext4 LABEL=cloudimg-rootfs MOUNTPOINT=/)"
is "$(echo "$root_disk" | blank)" '' 'a machine without local disks has none that is blank'
is "$(echo "$root_disk
$(disk nvme1n1)
$(disk nvme2n1 "MODEL=$store   ")" | blank)" 'nvme1n1 nvme2n1' \
    'two disks that hold nothing are blank'
is "$(disk nvme1n1 'MODEL=Amazon Elastic Block Store' | blank)" '' 'a blank volume stays blank'
is "$(disk nvme1n1 FSTYPE=xfs | blank)" '' 'a disk with a file system is not blank'
is "$(disk nvme1n1 PTTYPE=dos | blank)" '' 'a disk with a partition table is not blank'
is "$(disk nvme1n1 MOUNTPOINT=/data | blank)" '' 'a mounted disk is not blank'
is "$(disk nvme1n1 LABEL=x | blank)" '' 'a disk with a label is not blank'
is "$(disk nvme1n1 FSTYPE=LVM2_member | blank)" '' 'a part of a volume group is not blank'
is "$({
    disk nvme1n1
    disk md0 PKNAME=nvme1n1 TYPE=raid0 MODEL=
    disk nvme2n1
} | blank)" nvme2n1 'a disk below another device is not blank'
is "$(disk nvme1n1 SIZE=0 | blank)" '' 'a disk without a size is not blank'
is "$(disk sda 'MODEL=x" TYPE="disk' | blank)" '' 'quotes in a model name are not parsed as fields'
rm "$WORK/bin/lsblk"
is "$(lsblk --pairs --bytes -o "$(within disk 'echo $disk_columns')" | blank)" '' \
    'lsblk of this machine is understood'

# ---- how -----------------------------------------------------------------------------------------
stripe() { # DISK…: how they are joined, and what is made of them
    within disk 'device=; disk_stripe "$@"; echo "$? $device"' "$@" 2>&1
}
is "$(stripe /dev/a)" '0 /dev/a' 'one disk is used without a stripe'
hide() { # PROGRAM…: an empty PATH but for these
    rm -rf "$WORK/few" && mkdir "$WORK/few"
    local program
    for program; do ln -s "$(command -v "$program")" "$WORK/few/"; done
}
fake modprobe 'exit 1'
fake mdadm
fake lvcreate
fake pvcreate
fake vgcreate
: >"$CALLS"
hide bash cat timeout
run env PATH="$WORK/few" bash -c "source '$NODE_FILES/disk'; disk_stripe /dev/a /dev/b"
is "$status" 2 'two disks cannot be joined without mdadm or lvm'
is "$(stripe /dev/a /dev/b)" '0 /dev/dtctl/nvme' 'mdadm is no use without its module'
like "$(calls)" 'vgcreate -qq dtctl /dev/a /dev/b.*lvcreate .*-i 2' 'lvm joins the disks'
mkdir -p "$DTCTL_ROOT/sys/module/raid0"
is "$(stripe /dev/a /dev/b)" '0 /dev/md/dtctl-nvme' 'mdadm is the first choice'
like "$(calls)" 'mdadm --create .*--level=0.*--raid-devices=2 /dev/a /dev/b' \
    'mdadm joins the disks with stripes'
rm "$WORK"/bin/{lvcreate,pvcreate,vgcreate,modprobe}

# ---- on loop devices -----------------------------------------------------------------------------
# The nodes' lsblk would call them disks of that model, and a search by label looks at no other
# device; mount and mkfs are real.
# shellcheck disable=SC2317 # called at the end
take_down() {
    ! mountpoint -q "$DTCTL_ROOT/mnt/nvme" || umount "$DTCTL_ROOT/mnt/nvme"
    for device in "${devices[@]}"; do losetup -d "$device"; done
    devices=()
}
devices=()
if [ "$(id -u)" -ne 0 ]; then
    skip 9 'loop devices need root'
    done_testing
fi
truncate -s 400M one two
for file in one two; do
    device=$(losetup -f --show "$file") || break
    devices+=("$device")
done
at_end take_down
if [ ${#devices[@]} -ne 2 ]; then
    skip 9 'this machine gives no loop devices'
    done_testing
fi
names=${devices[*]#/dev/}
real=$(command -v lsblk)
fake lsblk "'$real' \"\$@\" | sed -E '/^NAME=\"(${names// /|})\"/{
    s/TYPE=\"loop\" MODEL=\"\"/TYPE=\"disk\" MODEL=\"$store\"/}'"
real=$(type -ap blkid | grep -v "^$WORK/" | head -1)
fake blkid "[ \"\$1\" != -l ] || { '$real' -c /dev/null \"\${@:2}\" ${devices[*]} | head -1; exit; }
exec '$real' \"\$@\""
rm "$WORK/bin/mount"
fake systemctl 'exit 1' # no unit of the image
mkfs.ext4 -q -L precious "${devices[0]}"
before=$(sha256sum <one)
run "$NODE_FILES/disk"
is "$status $out" "0 /mnt/nvme" 'the blank disk is mounted' || diag "$err"
is "$(findmnt -no SOURCE "$DTCTL_ROOT/mnt/nvme")" "${devices[1]}" \
    'the blank disk is mounted, not the other one'
is "$(sha256sum <one)" "$before" 'the one with a file system is not touched'
ok 'the mounted disk is writable' touch "$DTCTL_ROOT/mnt/nvme/kept"
like "$(findmnt -no OPTIONS "$DTCTL_ROOT/mnt/nvme")" noatime 'the mount has the option noatime'
is "$("$NODE_FILES/disk")" /mnt/nvme 'the second time changes nothing'
umount "$DTCTL_ROOT/mnt/nvme"
is "$("$NODE_FILES/disk")" /mnt/nvme 'after a reboot the disk is mounted again'
ok 'the files on the disk are kept' test -e "$DTCTL_ROOT/mnt/nvme/kept"
umount "$DTCTL_ROOT/mnt/nvme"
mkdir -p "$DTCTL_ROOT/opt/dlami/nvme"
mount --bind "$DTCTL_ROOT/opt/dlami/nvme" "$DTCTL_ROOT/opt/dlami/nvme"
is "$("$NODE_FILES/disk")" /opt/dlami/nvme 'disks that the image has mounted are left as they are'
umount "$DTCTL_ROOT/opt/dlami/nvme"
done_testing
