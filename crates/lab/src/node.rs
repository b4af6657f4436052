//! Nodes: how they are started, connected and entered.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::{command, run};
use crate::record::NodeRecord;
use crate::{LabError, Link};

/// The network of a lab; it is another one in each.
pub(crate) const NETWORK: &str = "10.99.0.0/16";

/// Makes a node, in namespaces of its own, and stays as the process that holds them: its name and
/// its process id are told, as the owner of the lab sees it and as the lab does. Directories that
/// are shared are put aside before `/tmp` is covered.
const HOLDER: &str = r#"
name=$1 directory=$2
shift 2
echo "$name" >/proc/sys/kernel/hostname || exit 1
read -r outer _ <"$directory/outer/self/stat"
read -r inner _ </proc/self/stat
umount "$directory/outer"
mount --bind "$directory/hosts" /etc/hosts || exit 1
mount --bind "$directory/$name.boot_id" /proc/sys/kernel/random/boot_id || exit 1
count=0
for shared; do
    count=$((count + 1))
    mkdir -p "$directory/$name.shared/$count" && mount --rbind "$shared" "$directory/$name.shared/$count" || exit 1
done
mount -t tmpfs -o mode=1777 tmpfs /tmp && mount -t tmpfs -o mode=1777 tmpfs /dev/shm || exit 1
count=0
for shared; do
    count=$((count + 1))
    mkdir -p "$shared" && mount --move "$directory/$name.shared/$count" "$shared" || exit 1
done
echo "$inner" >"$directory/$name.pid" || exit 1
echo "$name $outer"
exec >/dev/null 2>&1
sleep infinity &
wait
"#;

/// Starts holders of nodes beside each other; they are children of the keeper then.
const STARTER: &str = r#"
holder=$1 directory=$2 nodes=$3
shift 3
for name in $nodes; do
    unshare --net --mount --uts --ipc --propagation private sh -c "$holder" holder "$name" "$directory" "$@" </dev/null &
done
"#;

/// As `ssh` does for launchers: the options are skipped, and the words after the host's name are
/// run there by a shell.
fn enter_script(directory: &Path) -> String {
    format!(
        r#"#!/bin/sh
while :; do
    case $1 in
        -l | -p | -o | -i) shift 2 ;;
        -*) shift ;;
        *) break ;;
    esac
done
host=${{1#*@}}
shift
if ! read -r pid <"{}/$host.pid"; then
    echo "there is no node $host" >&2
    exit 255
fi
PWD_HERE=$PWD
exec nsenter -t "$pid" -m -u -n -i sh -c "cd '$PWD_HERE' 2>/dev/null; $*"
"#,
        directory.display()
    )
}

/// Where the script is by which launchers enter nodes.
pub(crate) fn enter_path(directory: &Path) -> PathBuf {
    directory.join("enter")
}

/// Writes the files that nodes need before they start.
pub(crate) fn prepare(directory: &Path, nodes: &[NodeRecord]) -> Result<(), LabError> {
    let failed = |source| LabError::io("cannot write the files of a lab", source);
    let mut hosts = String::from("127.0.0.1 localhost\n");
    for node in nodes {
        let _ = writeln!(hosts, "{} {}", node.address, node.name);
        renew_boot_id(directory, &node.name)?;
    }
    fs::write(directory.join("hosts"), hosts).map_err(failed)?;
    let enter = enter_path(directory);
    fs::write(&enter, enter_script(directory)).map_err(failed)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(enter, mode).map_err(failed)
}

/// Nodes are told apart by their boot id, which changes when they start again.
pub(crate) fn renew_boot_id(directory: &Path, name: &str) -> Result<(), LabError> {
    let mut id = [0_u8; 16];
    let failed = |source| LabError::io("cannot make a boot id", source);
    getrandom::fill(&mut id).map_err(|error| failed(error.into()))?;
    let number = u128::from_le_bytes(id);
    let digits = format!("{number:032x}");
    let (a, b, c, d, e) =
        (&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]);
    let path = directory.join(format!("{name}.boot_id"));
    fs::write(path, format!("{a}-{b}-{c}-{d}-{e}\n")).map_err(failed)
}

/// Starts the holders of these nodes and connects them to the switch.
pub(crate) fn start(
    keeper: u32,
    directory: &Path,
    nodes: &mut [NodeRecord],
    shared: &[PathBuf],
) -> Result<(), LabError> {
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let mut starter = enter(keeper, &["-p", "-m", "-n"]);
    starter.args(["sh", "-c", STARTER, "starter", HOLDER]).arg(directory).arg(names.join(" "));
    starter.args(shared).current_dir("/");
    std::os::unix::process::CommandExt::process_group(&mut starter, 0);
    let output = run("cannot start the nodes of a lab", &mut starter, "")?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    for node in &mut *nodes {
        let holder = told.lines().find_map(|line| line.strip_prefix(&format!("{} ", node.name)));
        let holder = holder.and_then(|pid| pid.parse().ok());
        node.holder = holder.ok_or_else(|| LabError::Command {
            attempted: format!("cannot start the node {}", node.name),
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })?;
    }
    connect(keeper, nodes)
}

/// Lays the cables.
fn connect(keeper: u32, nodes: &[NodeRecord]) -> Result<(), LabError> {
    let mut ports = String::new();
    for NodeRecord { name, holder, .. } in nodes {
        let _ = writeln!(ports, "link add name {name} type veth peer name eth0 netns {holder}");
        let _ = writeln!(ports, "link set dev {name} master switch up");
    }
    batch("cannot lay the cables of a lab", keeper, "ip", &ports)?;
    let down: String = nodes.iter().map(|node| node.link.down_commands(&node.name)).collect();
    batch("cannot limit the cables of a lab", keeper, "tc", &down)?;
    for node in nodes {
        let device = format!(
            "link set dev lo up\nlink set dev eth0 address {}\naddress add {}/16 dev eth0\n\
             link set dev eth0 up\n",
            hardware_address(&node.address),
            node.address
        );
        let attempted = format!("cannot connect the node {}", node.name);
        batch(&attempted, node.holder, "ip", &device)?;
        batch(&attempted, node.holder, "tc", &node.link.up_commands())?;
    }
    Ok(())
}

/// The hardware address of a node, which it also has after a failure of its power: others would
/// send to the old one for half a minute.
fn hardware_address(address: &str) -> String {
    let parts = address.split('.').map(|part| format!("{:02x}", part.parse::<u8>().unwrap_or(0)));
    // The second bit says that the address is not one of a manufacturer.
    std::iter::once("02:00".to_owned()).chain(parts).collect::<Vec<_>>().join(":")
}

/// Changes what the cable of a node lets pass.
pub(crate) fn set_link(keeper: u32, node: &NodeRecord, link: &Link) -> Result<(), LabError> {
    let attempted = format!("cannot change the link of {}", node.name);
    for (process, device, add) in [
        (keeper, node.name.as_str(), link.down_commands(&node.name)),
        (node.holder, "eth0", link.up_commands()),
    ] {
        // There may be nothing to remove.
        let _ = batch(&attempted, process, "tc", &format!("qdisc del dev {device} root\n"));
        batch(&attempted, process, "tc", &add)?;
    }
    Ok(())
}

/// Cuts the cable of a node, or mends it.
pub(crate) fn set_cut(keeper: u32, name: &str, is_cut: bool) -> Result<(), LabError> {
    let state = if is_cut { "down" } else { "up" };
    let what = format!("cannot set the link of {name} {state}");
    batch(&what, keeper, "ip", &format!("link set dev {name} {state}\n"))
}

/// Removes the port of a node that was killed: the kernel would take a moment.
pub(crate) fn remove_port(keeper: u32, name: &str) {
    let _ = batch("cannot remove a port", keeper, "ip", &format!("link del dev {name}\n"));
}

/// Commands of `ip` or `tc` in the network of a process.
fn batch(
    attempted: &str,
    process: u32,
    program: &'static str,
    lines: &str,
) -> Result<(), LabError> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut enter = enter(process, &["-n"]);
    enter.arg(command(program).get_program()).args(["-batch", "-"]);
    run(attempted, &mut enter, lines).map(drop)
}

/// A command in namespaces of a process; its words are still to come.
pub(crate) fn enter(process: u32, namespaces: &[&str]) -> Command {
    let mut nsenter = command("nsenter");
    nsenter.args(["-t", &process.to_string()]).args(namespaces);
    nsenter
}
