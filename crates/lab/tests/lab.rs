//! What nodes of a lab are like, what their cables do, and what is left of a lab in the end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use striate_lab::{Lab, LabError, LabSettings, Link, Rate};

/// How long something that must happen may take.
const LIMIT: Duration = Duration::from_secs(60);

fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !happened() {
        assert!(begin.elapsed() < LIMIT, "{what} does not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A lab that sees this program, wherever it is.
fn lab(nodes: usize, link: Link) -> Lab {
    let program = env::current_exe().unwrap();
    Lab::up(&LabSettings::new(nodes, link).share(program.parent().unwrap())).unwrap()
}

fn said(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn shell(lab: &Lab, node: usize, script: &str) -> String {
    let mut command = lab.command(node, "sh").unwrap();
    command.args(["-c", script]);
    said(command)
}

/// One of the roles below, as a program in a node.
fn role(lab: &Lab, node: usize, role: &str, bytes: usize) -> Child {
    let mut command = lab.command(node, env::current_exe().unwrap()).unwrap();
    command.args([role, "--exact", "--ignored", "--nocapture"]).env("BYTES", bytes.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

fn bytes() -> usize {
    env::var("BYTES").unwrap().parse().unwrap()
}

const PORT: u16 = 7000;

#[test]
#[ignore = "a role in a node"]
fn receiver() {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
    println!("\nlistens");
    let (mut connection, _) = listener.accept().unwrap();
    let mut received = vec![0; bytes()];
    connection.read_exact(&mut received).unwrap();
    println!("\nreceived");
    connection.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let silent = loop {
        match connection.read(&mut received) {
            Ok(0) => break false,
            Ok(_) => {}
            Err(error) => break error.kind() == ErrorKind::WouldBlock,
        }
    };
    println!("\n{}", if silent { "silence" } else { "end" });
}

#[test]
#[ignore = "a role in a node"]
fn sender() {
    let mut connection = TcpStream::connect(("n2", PORT)).unwrap();
    connection.write_all(&vec![1; bytes()]).unwrap();
    println!("\nsent");
    // It lives, and so does the connection, until it is told to end.
    let _ = std::io::stdin().read(&mut [0]);
}

/// Waits for a line of this text.
fn await_line(output: &mut impl std::io::BufRead, text: &str) {
    let mut line = String::new();
    while line.trim() != text {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "no '{text}'");
    }
}

#[test]
fn nodes_are_machines_of_their_own() {
    let shared = tempfile::tempdir().unwrap();
    let settings = LabSettings::new(3, Link::default()).share(shared.path());
    let lab = Lab::up(&settings).unwrap();
    for (what, script) in [
        ("name", "cat /proc/sys/kernel/hostname"),
        ("boot id", "cat /proc/sys/kernel/random/boot_id"),
        ("private file", "touch /tmp/$(cat /proc/sys/kernel/hostname); ls /tmp"),
        ("address", "ip -brief -4 address show dev eth0"),
    ] {
        let of_nodes: Vec<String> = (0..3).map(|node| shell(&lab, node, script)).collect();
        let [a, b, c] = of_nodes.as_slice() else { unreachable!() };
        assert!(a != b && b != c && a != c && !a.is_empty(), "{what}: {of_nodes:?}");
    }
    let file = shared.path().join("file");
    assert_eq!(shell(&lab, 0, &format!("echo all > {}", file.display())), "");
    assert_eq!(shell(&lab, 2, &format!("cat {}", file.display())), "all");
    let inside = lab.path_in(1, Path::new("/tmp/inside")).unwrap();
    fs::write(inside, "here").unwrap();
    assert_eq!(shell(&lab, 1, "cat /tmp/inside"), "here");
    // Other labs may be there at the same time, with the same addresses.
    let other = Lab::up(&settings).unwrap();
    assert_ne!(other.record().name, lab.record().name);
    assert_eq!(other.nodes()[0].address, lab.nodes()[0].address);
}

#[test]
fn bytes_of_cables_are_counted() {
    const BYTES: usize = 1 << 20;
    let mut lab = lab(3, Link::both(Rate::mbit(200)));
    // What is lost is sent again.
    lab.set_link(0, Link::asymmetric(Rate::mbit(100), Rate::mbit(50)).with_loss(0.02)).unwrap();
    let before = lab.link_bytes().unwrap();
    let mut receiver = role(&lab, 1, "receiver", BYTES);
    let mut output = BufReader::new(receiver.stdout.take().unwrap());
    await_line(&mut output, "listens");
    let mut sender = role(&lab, 0, "sender", BYTES);
    await_line(&mut output, "received");
    drop(sender.stdin.take());
    await_line(&mut output, "end");
    assert!(sender.wait().unwrap().success() && receiver.wait().unwrap().success());
    let passed: Vec<_> =
        lab.link_bytes().unwrap().into_iter().zip(before).map(|(now, then)| now - then).collect();
    let bytes = BYTES as u64;
    let about = |count: u64| (bytes..bytes + bytes / 4).contains(&count);
    assert!(about(passed[0].up) && about(passed[1].down), "{passed:?}");
    assert!(passed[0].down < bytes / 4 && passed[2].up + passed[2].down < 10_000, "{passed:?}");
}

#[test]
fn a_cut_cable_passes_nothing_until_it_is_mended() {
    const BYTES: usize = 4 << 20;
    let mut lab = lab(2, Link::both(Rate::mbit(8)));
    let mut receiver = role(&lab, 1, "receiver", BYTES);
    let mut output = BufReader::new(receiver.stdout.take().unwrap());
    await_line(&mut output, "listens");
    let mut sender = role(&lab, 0, "sender", BYTES);
    wait_until("sending", || lab.link_bytes().unwrap()[1].down > 100_000);
    lab.cut(1).unwrap();
    assert!(lab.nodes()[1].is_cut);
    let there = lab.link_bytes().unwrap()[1].down;
    assert!(there < BYTES as u64, "all was sent before the cable was cut");
    thread::sleep(Duration::from_millis(200));
    assert_eq!(lab.link_bytes().unwrap()[1].down, there);
    lab.set_link(1, Link::default()).unwrap();
    lab.set_link(0, Link::default()).unwrap();
    lab.restore(1).unwrap();
    await_line(&mut output, "received");
    drop(sender.stdin.take());
    await_line(&mut output, "end");
    assert!(sender.wait().unwrap().success() && receiver.wait().unwrap().success());
}

#[test]
fn a_killed_node_says_nothing_and_starts_again() {
    let mut lab = lab(2, Link::default());
    let mut receiver = role(&lab, 1, "receiver", 1);
    let mut output = BufReader::new(receiver.stdout.take().unwrap());
    await_line(&mut output, "listens");
    let mut sender = role(&lab, 0, "sender", 1);
    await_line(&mut output, "received");
    let boot = shell(&lab, 0, "touch /tmp/file; cat /proc/sys/kernel/random/boot_id");
    assert!(!lab.processes(0).unwrap().is_empty());
    lab.kill(0).unwrap();
    assert!(!sender.wait().unwrap().success());
    await_line(&mut output, "silence");
    assert!(receiver.wait().unwrap().success());
    assert!(matches!(lab.command(0, "true"), Err(LabError::NoNode { .. })));
    lab.start(0).unwrap();
    assert_ne!(shell(&lab, 0, "ls /tmp; cat /proc/sys/kernel/random/boot_id"), boot);
    let connects = "exec 3<>/dev/tcp/n2/7000";
    let mut again = role(&lab, 1, "receiver", 1);
    let mut output = BufReader::new(again.stdout.take().unwrap());
    await_line(&mut output, "listens");
    let mut bash = lab.command(0, "bash").unwrap();
    bash.args(["-c", &format!("{connects}; echo >&3")]);
    said(bash);
    await_line(&mut output, "end");
    assert!(again.wait().unwrap().success());
    wait_until("the end of all processes", || lab.processes(1).unwrap().is_empty());
}

#[test]
fn a_program_ends_with_its_child_process_here() {
    let lab = lab(1, Link::default());
    let mut child = lab.command(0, "sleep").unwrap().arg("1000").spawn().unwrap();
    wait_until("a start", || lab.processes(0).unwrap().iter().any(|of| of.name == "sleep"));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the end", || lab.processes(0).unwrap().is_empty());
}

#[test]
#[ignore = "the owner of a lab, which is killed"]
fn owner() {
    let mut lab = lab(2, Link::default());
    let mut child = lab.command(1, "sleep").unwrap().arg("1000").spawn().unwrap();
    if env::var_os("KEEP").is_some() {
        lab.keep().unwrap();
    }
    println!("\nlab {}", lab.record().name);
    child.wait().unwrap();
}

/// Starts an owner, and returns it with the name of its lab.
fn owner_of_a_lab(variables: &[(&str, &str)]) -> (Child, String) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["owner", "--exact", "--ignored", "--nocapture"]).stdin(Stdio::null());
    command.envs(variables.iter().copied()).stdout(Stdio::piped());
    let mut owner = command.spawn().unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let name = lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("lab ")?.into()));
    (owner, name.unwrap())
}

/// The lab of this name and all processes in its nodes.
fn is_there(name: &str, pids: &[u32]) -> bool {
    let there = |pid: &u32| {
        Path::new(&format!("/proc/{pid}/ns/net")).exists()
            && fs::read_link(format!("/proc/{pid}/ns/net")).is_ok()
    };
    Lab::open(name).is_ok() || pids.iter().any(there)
}

fn pids(name: &str) -> Vec<u32> {
    let lab = Lab::open(name).unwrap();
    wait_until("a start", || lab.processes(1).unwrap().iter().any(|of| of.name == "sleep"));
    let holders = lab.nodes().iter().map(|node| node.holder);
    holders.chain(lab.processes(1).unwrap().into_iter().map(|process| process.pid)).collect()
}

#[test]
fn nothing_outlives_an_owner_that_is_killed() {
    let (mut owner, name) = owner_of_a_lab(&[]);
    let pids = pids(&name);
    let directory = Lab::open(&name).unwrap().record().directory();
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until("the end of the lab", || !is_there(&name, &pids) && !directory.exists());
}

#[test]
fn a_lab_that_is_kept_outlives_its_owner_until_it_is_taken_down() {
    let (mut owner, name) = owner_of_a_lab(&[("KEEP", "1")]);
    let there = pids(&name);
    owner.kill().unwrap();
    owner.wait().unwrap();
    let lab = Lab::open(&name).unwrap();
    shell(&lab, 0, "true");
    drop(lab);
    assert!(is_there(&name, &[]));
    Lab::down(&name).unwrap();
    wait_until("the end of the lab", || !is_there(&name, &there));
    assert!(matches!(Lab::open(&name), Err(LabError::Unknown(_))));
}

#[test]
fn a_killed_keeper_takes_everything_along() {
    let (mut owner, name) = owner_of_a_lab(&[("KEEP", "1")]);
    let there = pids(&name);
    let keeper = Lab::open(&name).unwrap().record().keeper;
    Command::new("kill").args(["-9", &keeper.to_string()]).status().unwrap();
    wait_until("the end of the lab", || !is_there(&name, &there));
    owner.kill().unwrap();
    owner.wait().unwrap();
    // The next lab removes what the keeper could not.
    drop(lab(1, Link::default()));
    assert!(matches!(Lab::open(&name), Err(LabError::Unknown(_))));
}
