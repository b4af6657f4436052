#!/bin/sh
# A Ceph cluster of one monitor and three OSDs in memory, on loopback: ceph_cluster.sh DIRECTORY PORT
#
# Prints "ready", or "failed" and why. Ends the cluster and removes the directory when its standard input ends, thus
# with the program that started it, however that ends. If this shell is killed, the kernel ends the daemons.
directory=$1
port=$2

cd "$directory" || exit 1
exec 2>log
export CEPH_CONF=$directory/ceph.conf
unset CEPH_ARGS
fsid=$(cat /proc/sys/kernel/random/uuid)
cat >ceph.conf <<CONF
[global]
fsid = $fsid
mon_host = v1:127.0.0.1:$port
keyring = $directory/keyring
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_ipv6 = false
run_dir = $directory
admin_socket =
log_file =
mon_cluster_log_to_file = false
mon_data = $directory/mon
osd_data = $directory/\$name
osd_objectstore = memstore
memstore_page_set = true
memstore_device_bytes = 8589934592
osd_pool_default_size = 2
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_osd_reporter_subtree_level = osd
mon_osd_min_down_reporters = 1
mon_max_pg_per_osd = 1000
mon_allow_pool_delete = true
osd_heartbeat_interval = 1
osd_heartbeat_grace = 5
CONF

daemon() { # name, command...
    name=$1
    shift
    setpriv --pdeathsig KILL "$@" >/dev/null &
    echo $! >"$name.pid"
}

end() {
    for file in *.pid; do
        kill -KILL "$(cat "$file")"
    done
    wait
    cd /
    rm -rf "$directory"
}

fail() {
    echo "failed: $1"
    tail -n 20 log
    end
    exit 1
}

key() { # entity, capabilities...
    entity=$1
    shift
    ceph-authtool keyring --gen-key -n "$entity" "$@" >/dev/null
}
ceph-authtool --create-keyring keyring --gen-key -n mon. --cap mon 'allow *' >/dev/null || fail "ceph-authtool"
key client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
key client.reader --cap mon 'allow r' --cap osd 'allow r'
for n in 0 1 2; do
    key osd.$n --cap mon 'allow profile osd' --cap osd 'allow *'
done
monmaptool --create --addv a "[v1:127.0.0.1:$port]" --fsid "$fsid" monmap >/dev/null || fail "monmaptool"
ceph-mon --mkfs -i a --monmap monmap --keyring keyring || fail "ceph-mon --mkfs"
daemon mon.a ceph-mon -f -i a --public-addr "127.0.0.1:$port"

for n in 0 1 2; do
    uuid=$(cat /proc/sys/kernel/random/uuid)
    mkdir osd.$n
    timeout 30 ceph osd new "$uuid" $n >/dev/null || fail "ceph osd new"
    ceph-osd --mkfs -i $n --osd-uuid "$uuid" >/dev/null || fail "ceph-osd --mkfs"
    daemon osd.$n ceph-osd -f -i $n
done
for pool in data other; do
    timeout 30 ceph osd pool create $pool 64 64 || fail "ceph osd pool create"
done >/dev/null
attempts=0
until timeout 10 ceph osd stat | grep -q '3 up'; do
    attempts=$((attempts + 1))
    [ $attempts -lt 100 ] || fail "the OSDs are not up"
    sleep 0.1
done
echo ready

# Until the other program ends, or closes the pipe.
cat >/dev/null
end
