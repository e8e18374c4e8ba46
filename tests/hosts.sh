# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# hosts.sh: hosts made of namespaces, each with a real OpenSSH server. Sourced by lib.sh.
#
#     operator (this script)   10.77.0.254 ── bridge dt0 ─┬─ node1  10.77.0.1  port 22
#                                                         └─ node2  10.77.0.2  port 22 …
#
# Each host has its own network, mount and UTS namespace: own address, host name, host keys, /root,
# /home, /tmp, /run and /dev/shm; with HOSTS_HOME, a folder, all have that as /root. There is no
# default route, so nothing leaves the machine. All of it, processes too, lives in a process
# namespace of the script and ends with it, however it ends.

HOSTS_NET=10.77.0
SSHD_SECONDS_MAX=10

# hosts_up N [USER…]: must come first in a script, which it runs again inside new namespaces. Every
# USER, and root, can log in on every host with the key $HOME/.ssh/id_ed25519.
hosts_up() {
    [ -x /usr/sbin/sshd ] || skip_all 'namespace hosts need /usr/sbin/sshd'
    namespaces_enter "$@"
    local count=$1 i
    shift
    HOSTS=()
    HOSTS_PYTHON=${PYTHON:+$("$PYTHON" -c \
        'import sys; print(*sorted({sys.prefix, sys.base_prefix}), sep="\n")' 2>/dev/null)}
    hosts_files "$count" "$@"
    ip link add dt0 type bridge
    ip addr add "$HOSTS_NET.254/16" dev dt0
    ip link set dt0 up
    for ((i = 1; i <= count; i++)); do
        host_network "$i"
        HOSTS+=("node$i")
        host_start "$i" "$@"
    done
    for ((i = 1; i <= count; i++)); do
        wait_for $SSHD_SECONDS_MAX host_answers "$i" || bail_out "sshd of node$i does not answer"
    done
}

# namespaces_enter ARGUMENT…: runs the script once more inside namespaces of its own, where it goes
# on as host "operator" with an empty /run and no network but loopback.
namespaces_enter() {
    if [ -n "${TEST_INSIDE-}" ]; then
        mount -t tmpfs -o mode=755 tmpfs /run
        hostname operator
        ip link set lo up
        return 0
    fi
    [ "$(id -u)" -eq 0 ] || skip_all 'namespace hosts need root'
    unshare --net --mount --pid --fork --mount-proc true 2>/dev/null ||
        skip_all 'this machine lets nobody make namespaces'
    trap - EXIT
    TEST_INSIDE=$$ TEST_WORK=$WORK TEST_HOME0=$(getent passwd root | cut -d: -f6) exec unshare \
        --net --mount --uts --ipc --pid --fork --kill-child --mount-proc --propagation private \
        "$SCRIPT" "$@"
}

# hosts_route: from now on hosts reach each other through the operator. On one link each pair has an
# entry in the kernel's table of neighbours, which holds about a thousand.
hosts_route() {
    local i
    echo 1 >/proc/sys/net/ipv4/ip_forward
    echo 0 >/proc/sys/net/ipv4/conf/all/send_redirects
    echo 0 >/proc/sys/net/ipv4/conf/dt0/send_redirects
    for ((i = 1; i <= ${#HOSTS[@]}; i++)); do
        ip -n "node$i" route replace "$HOSTS_NET.254/32" dev eth0
        ip -n "node$i" route replace "${HOSTS_NET%.*}.0.0/16" via "$HOSTS_NET.254" dev eth0
    done
}

# A dtctl.toml for all hosts, in the current folder.
hosts_config() {
    printf '[cluster]\nprovider = "hosts"\n[hosts]\nlist = ["root@node[1-%d]"]\n' \
        "${#HOSTS[@]}" >dtctl.toml
}

host_address() { # I: from 1 on, without the operator's
    echo "${HOSTS_NET%.*}.$(($1 / 254)).$(($1 % 254))"
}

host_answers() { # I
    [[ $(exec 3<>"/dev/tcp/$(host_address "$1")/22" && head -c 4 <&3) == SSH- ]]
}

# Names, users and keys that all hosts see, in private copies of the files in /etc.
hosts_files() { # COUNT USER…
    local count=$1 i user uid=20000 file address
    shift
    mkdir -p "$WORK/etc" "$HOME/.ssh"
    chmod 755 "$WORK"
    chmod 700 "$HOME/.ssh"
    cp /etc/passwd /etc/shadow /etc/group "$WORK/etc/"
    sed -i -E 's,^(root:)[^:]*,\1*,' "$WORK/etc/shadow"
    for user; do
        uid=$((uid + 1))
        echo "$user:x:$uid:$uid::/home/$user:/bin/bash" >>"$WORK/etc/passwd"
        echo "$user:*:20000:0:99999:7:::" >>"$WORK/etc/shadow"
        echo "$user:x:$uid:" >>"$WORK/etc/group"
    done
    printf '127.0.0.1 localhost\n%s.254 operator\n' $HOSTS_NET >"$WORK/etc/hosts"
    ssh-keygen -q -t ed25519 -N '' -C operator -f "$HOME/.ssh/id_ed25519"
    for ((i = 1; i <= count; i++)); do
        address=$(host_address "$i")
        echo "$address node$i" >>"$WORK/etc/hosts"
        mkdir -p "$WORK/node$i/keys"
        ssh-keygen -q -t ed25519 -N '' -C "node$i" -f "$WORK/node$i/keys/ed25519"
        ssh-keygen -q -t ecdsa -N '' -C "node$i" -f "$WORK/node$i/keys/ecdsa"
        sed "s/^/node$i,$address /" "$WORK/node$i/keys/"*.pub >>"$HOME/.ssh/known_hosts"
    done
    for file in passwd shadow group hosts; do
        mount --bind "$WORK/etc/$file" "/etc/$file"
    done
}

host_network() { # I
    ip netns add "node$1"
    ip -batch - <<-END
		link add veth$1 type veth peer name eth0 netns node$1
		link set veth$1 master dt0 up
	END
    ip -n "node$1" -batch - <<-END
		addr add $(host_address "$1")/16 dev eth0
		link set eth0 up
		link set lo up
	END
}

# Runs inside a host's namespaces before its sshd. Folders below the operator's real /root that
# python needs stay visible, read-only.
host_inside() { # I USER…
    local node=node$1 user path state=$WORK/node$1
    local home=${HOSTS_HOME:-$state/root}
    shift
    hostname "$node"
    mkdir -p "$home/.ssh" "$state/home" "$state/tmp" "$state/shared"
    chmod 1777 "$state/tmp"
    cp "$HOME/.ssh/id_ed25519.pub" "$home/.ssh/authorized_keys"
    chmod 700 "$home" "$home/.ssh"
    for user; do
        mkdir -p "$state/home/$user/.ssh"
        cp "$HOME/.ssh/id_ed25519.pub" "$state/home/$user/.ssh/authorized_keys"
        chmod 700 "$state/home/$user/.ssh"
        chown -R "$user:$user" "$state/home/$user"
    done
    mount -t tmpfs -o mode=755 tmpfs /run
    mount -t tmpfs -o mode=1777,size=1g tmpfs /dev/shm
    mkdir -p /run/sshd /run/keys
    cp "$state/keys/"* /run/keys/
    chmod 600 /run/keys/ed25519 /run/keys/ecdsa
    host_sshd_config >/run/sshd_config
    for path in $HOSTS_PYTHON; do
        [[ $path == "$TEST_HOME0"/* ]] || continue
        mkdir -p "$state/shared/${path#/}" "$home/${path#"$TEST_HOME0"/}"
        mount --bind "$path" "$state/shared/${path#/}"
        mount -o remount,bind,ro "$state/shared/${path#/}"
    done
    mount --rbind "$home" "$TEST_HOME0"
    for path in $HOSTS_PYTHON; do
        [[ $path != "$TEST_HOME0"/* ]] || mount --bind "$state/shared/${path#/}" "$path"
    done
    mount --bind "$state/home" /home
    mount --bind "$state/tmp" /tmp
    cd /
    exec env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin \
        /usr/sbin/sshd -D -e -f /run/sshd_config
}

host_sshd_config() {
    cat <<-EOF
		Port 22
		HostKey /run/keys/ed25519
		HostKey /run/keys/ecdsa
		PidFile /run/sshd.pid
		PermitRootLogin prohibit-password
		PasswordAuthentication no
		KbdInteractiveAuthentication no
		UsePAM no
		StrictModes no
		PrintMotd no
		MaxStartups 100
		MaxSessions 100
		AcceptEnv DTCTL_*
		Subsystem sftp internal-sftp
		${HOSTS_SSHD_OPTIONS-}
	EOF
}

# host_start I [USER…]: starts the host's sshd, again after host_stop. Its log is node<I>/sshd.log.
host_start() {
    local i=$1
    if [ -f "$WORK/node$i/holder" ]; then
        on "$i" /usr/sbin/sshd -D -e -f /run/sshd_config 2>>"$WORK/node$i/sshd.log" &
        echo $! >"$WORK/node$i/pid"
        disown
        return
    fi
    # The holder keeps the namespaces while sshd is stopped.
    export -f host_inside host_sshd_config
    export WORK HOME PYTHON TEST_HOME0 HOSTS_HOME HOSTS_PYTHON
    # shellcheck disable=SC2016 # expanded inside
    ip netns exec "node$i" unshare --mount --uts --propagation private bash -c \
        'sleep infinity & echo $! >"$WORK/node$1/holder"; host_inside "$@"' \
        host "$@" 2>>"$WORK/node$i/sshd.log" </dev/null >/dev/null &
    echo $! >"$WORK/node$i/pid"
    disown # so that bash does not report its end
    wait_for $SSHD_SECONDS_MAX test -s "$WORK/node$i/holder"
}

# host_stop I: ends the host's sshd with all its sessions; other processes of the host continue.
host_stop() {
    local pid
    ssh_cut "$1"
    pid=$(cat "$WORK/node$1/pid")
    kill "$pid" 2>/dev/null
    wait_for $SSHD_SECONDS_MAX test ! -e "/proc/$pid"
}

# ssh_cut I: ends every SSH connection of the host at once, as a broken network would; sshd stays.
ssh_cut() {
    local pid listener name
    listener=$(<"$WORK/node$1/pid")
    for pid in $(ip netns pids "node$1"); do
        name=
        read -r name 2>/dev/null <"/proc/$pid/comm"
        if [ "$pid" != "$listener" ] && [[ $name == sshd* ]]; then
            kill -9 "$pid" 2>/dev/null
        fi
    done
    return 0
}

# link_down I, link_up I: the host's cable.
link_down() { ip link set "veth$1" down; }
link_up() { ip link set "veth$1" up; }

# on I COMMAND…: runs a command on the host without SSH.
on() {
    local holder
    holder=$(<"$WORK/node$1/holder")
    shift
    TMPDIR=/tmp nsenter --target "$holder" --mount --net --uts -- "$@" # its own, see above
}

# host_processes I PATTERN: the host's processes whose command line has it, NULs between the words.
host_processes() {
    local pid cmdlines=()
    for pid in $(ip netns pids "node$1"); do cmdlines+=("/proc/$pid/cmdline"); done
    while IFS=/ read -r _ _ pid _; do
        echo "$pid"
    done < <(grep -laE "$2" "${cmdlines[@]}" /dev/null 2>/dev/null)
}

# ssh_to [USER@]I COMMAND…: OpenSSH's client, with the operator's key and known_hosts. The usual key
# exchange, sntrup761x25519, takes a tenth of a second of a processor.
ssh_to() {
    local user=root i=$1
    [[ $i != *@* ]] || user=${i%@*} i=${i#*@}
    shift
    ssh -n -F none -o BatchMode=yes -o UserKnownHostsFile="$HOME/.ssh/known_hosts" \
        -o GlobalKnownHostsFile=none -o ConnectTimeout=5 -i "$HOME/.ssh/id_ed25519" \
        -o KexAlgorithms=curve25519-sha256 \
        "$user@$(host_address "$i")" "$@"
}

# Ends every process of every host and takes the network apart.
hosts_down() {
    local node pid
    [ -n "${TEST_INSIDE-}" ] || return 0
    for node in "${HOSTS[@]}"; do
        for pid in $(ip netns pids "$node" 2>/dev/null); do
            kill -9 "$pid" 2>/dev/null
        done
        ip netns delete "$node" 2>/dev/null
    done
    ip link delete dt0 2>/dev/null
    HOSTS=()
    return 0
}
