//! Servers at their limits: many clients at once, and a disk that is full.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "servers/cluster.rs"]
#[allow(dead_code, reason = "each test program uses a part")]
mod cluster;

use std::process::Command;

use cluster::{ChildProcess, Server, random, striate};
use striate_store::remote::{Client, ClientOptions, RemoteFile, RemoteOptions};
use striate_store::{ErrorKind, Store};

/// Memory that a process has used at most, in bytes.
fn peak(process: &ChildProcess) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

fn open(address: &str, path: &str) -> RemoteFile {
    let client = Client::connect(address, ClientOptions::default()).unwrap();
    let options = RemoteOptions { create: true, ..RemoteOptions::default() };
    RemoteFile::open_with(&client, &client.url(path), &options).unwrap()
}

#[test]
fn two_hundred_clients_that_are_busy_share_the_memory_of_the_server() {
    const CLIENTS: usize = 200;
    const LEN: usize = 3 << 20;
    const MEMORY: u64 = 32 << 20;
    let place = tempfile::tempdir().unwrap();
    let config = place.path().join("striate.toml");
    std::fs::write(&config, format!("[limits]\nmemory = \"{MEMORY}\"\n")).unwrap();
    let data = place.path().join("data");
    let (config, data) = (config.to_str().unwrap(), data.to_str().unwrap());
    let arguments = ["--config", config, "--data", data, "--meta", "--listen", "127.0.0.1:0"];
    let server = Server::start(&arguments);
    let before = peak(&server.process);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let address = &server.address;
            scope.spawn(move || {
                let file = open(address, &format!("file-{}", number % 20));
                let bytes = random(&number.to_string(), LEN);
                let offset = (number / 20 * LEN) as u64;
                file.write_at(offset, &bytes).unwrap();
                let mut back = vec![0; LEN];
                assert_eq!(file.read_at(offset, &mut back).unwrap(), LEN);
                assert!(back == bytes, "client {number}");
            });
        }
    });
    let grown = peak(&server.process) - before;
    println!("{CLIENTS} clients: the server grew by {} MiB of {} MiB", grown >> 20, MEMORY >> 20);
    assert!(grown < MEMORY + (64 << 20), "it grew by {grown} bytes");
}

/// A server on a file system of two MiB of its own.
fn cramped(data: &str) -> Server {
    let script = format!(
        "mount -t tmpfs -o size=2m tmpfs '{data}' && exec '{}' serve --json --log off --meta \
         --data '{data}/server' --listen 127.0.0.1:0",
        env!("CARGO_BIN_EXE_striate")
    );
    // In a mount namespace of its own: the mount ends with the process.
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", &script]);
    Server::from_command(command)
}

#[test]
fn a_full_disk_is_told_and_harms_nothing() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let server = cramped(data.to_str().unwrap());
    let kept = open(&server.address, "kept");
    let bytes = random("kept", 300_000);
    kept.write_at(0, &bytes).unwrap();
    kept.sync().unwrap();

    let large = open(&server.address, "large");
    let error = large.write_at(0, &vec![1; 8 << 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert!(error.to_string().contains(&server.address), "{error}");
    let error = large.preallocate(8 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    drop(large);

    let mut back = vec![0; bytes.len()];
    assert_eq!(kept.read_at(0, &mut back).unwrap(), bytes.len());
    assert!(back == bytes);
    // Room is made, and it goes on.
    let url = format!("striate://{}/large", server.address);
    let removed = striate(&["fs", "rm", &url]).output().unwrap();
    assert!(removed.status.success(), "{}", cluster::told(&removed));
    kept.write_at(300_000, &bytes).unwrap();
    kept.sync().unwrap();
}
