//! Servers whose disk is filled at random, by them or by others: files can be removed, servers
//! start again, and what was whole stays so.
//!
//! Each disk is a file system of its own, in a mount namespace of this program once more: it is
//! started by `unshare`, and told by an environment variable which kind of disks to fill.
//! `STRIATE_ROUNDS` says how many of each kind, `STRIATE_SEED` which is the first.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "servers/cluster.rs"]
#[allow(dead_code, reason = "each test program uses a part")]
mod cluster;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use cluster::{Server, random, striate, told};
use rustix::process::Signal;
use striate_store::remote::{Client, ClientOptions, RemoteFile, RemoteOptions};
use striate_store::{ErrorKind, Store, StoreError};

/// Which disks this process is to fill.
const KIND: &str = "STRIATE_TEST_DISK";

/// Writes that must fail in a row until the disk counts as full.
const FAILURES: u32 = 8;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Tmpfs,
    Ext4,
}

#[test]
fn a_tmpfs_that_is_full() {
    fill_all("a_tmpfs_that_is_full", Kind::Tmpfs);
}

#[test]
fn an_ext4_that_is_full() {
    fill_all("an_ext4_that_is_full", Kind::Ext4);
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// Runs the test in a mount namespace, and in that one fills the disks.
fn fill_all(test: &str, kind: Kind) {
    if std::env::var_os(KIND).is_none() {
        let mut command = Command::new("unshare");
        command.arg("--mount");
        // Only root may mount a disk; a file system in memory may be mounted by the root of a user
        // namespace.
        if !rustix::process::geteuid().is_root() {
            assert!(!matches!(kind, Kind::Ext4), "this test must be run by root: it mounts a disk");
            command.arg("--map-root-user");
        }
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(KIND, test);
        let output = command.output().unwrap();
        println!("{}", told(&output));
        assert!(output.status.success() && told(&output).contains("1 passed"));
        return;
    }
    let rounds = number("STRIATE_ROUNDS", 5);
    let first = number("STRIATE_SEED", 1);
    for seed in first..first + rounds {
        let disk = Disk::mount(kind, &mut Random::new(seed));
        let mut random = Random::new(seed ^ 0xF111);
        let others = random.once_in(2);
        let mut fill = Fill { seed, kind, random, disk: disk.path(), others };
        fill.run();
    }
    println!("{rounds} fills of {kind:?}");
}

/// Numbers that look random and are the same for the same seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A file system of its own, for as long as this lives.
struct Disk {
    place: tempfile::TempDir,
    /// Where the image of the disk is: in memory, where a sync takes no time.
    _memory: tempfile::TempDir,
}

impl Disk {
    fn mount(kind: Kind, random: &mut Random) -> Self {
        let place = tempfile::tempdir().unwrap();
        let shared = Path::new("/dev/shm");
        let memory =
            if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
        let memory = memory.unwrap();
        let root = place.path().join("disk");
        fs::create_dir(&root).unwrap();
        let mib = 6 + random.below(42);
        println!("a disk of {mib} MiB");
        let mut mount = Command::new("mount");
        match kind {
            Kind::Tmpfs => {
                mount.args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]);
            }
            Kind::Ext4 => {
                let image = memory.path().join("image");
                File::create(&image).unwrap().set_len(mib << 20).unwrap();
                let mut make = Command::new("mkfs.ext4");
                // With and without blocks that are kept for root.
                make.args(["-q", "-F", "-m", if random.once_in(2) { "0" } else { "5" }])
                    .arg(&image);
                let made = make.output().expect("mkfs.ext4 (package e2fsprogs) must be there");
                assert!(made.status.success(), "{}", told(&made));
                mount.args(["-o", "loop"]).arg(image);
            }
        }
        let mounted = mount.arg(&root).output().unwrap();
        assert!(mounted.status.success(), "no disk for the test: {}", told(&mounted));
        Self { place, _memory: memory }
    }

    fn path(&self) -> &Path {
        Box::leak(self.place.path().join("disk").into_boxed_path())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let gone = Command::new("umount").arg(self.place.path().join("disk")).status();
        if !std::thread::panicking() {
            assert!(gone.unwrap().success());
        }
    }
}

struct Fill<'d> {
    seed: u64,
    kind: Kind,
    random: Random,
    disk: &'d Path,
    /// Whether others take all that servers leave, and give back.
    others: bool,
}

/// Files by their names: their lengths if they are whole, `None` if writing them failed.
type Files = BTreeMap<String, Option<usize>>;

impl Fill<'_> {
    fn run(&mut self) {
        let servers = 1 + 2 * self.random.below(2);
        let mut server = self.start(servers);
        let mut files = self.write_until_full(&server);
        println!(
            "seed {}, {:?}: {servers} servers, {} files, full by others: {}",
            self.seed,
            self.kind,
            files.len(),
            self.others
        );
        server = self.restart(server, servers);
        self.compare(&server, &files);

        // All that is not whole, and some of what is.
        let gone: Vec<String> = files
            .iter()
            .filter(|(_, len)| len.is_none() || self.random.once_in(3))
            .map(|(name, _)| name.clone())
            .collect();
        for some in gone.chunks(200) {
            self.fill_by_others();
            let urls: Vec<String> = some.iter().map(|name| url(&server, name)).collect();
            let removed = striate(&["fs", "rm"]).args(urls).output().unwrap();
            assert!(removed.status.success(), "{}: {}", self.seed, told(&removed));
        }
        for name in &gone {
            files.remove(name);
        }
        server = self.restart(server, servers);
        self.compare(&server, &files);
        let checked = striate(&["fsck", &url(&server, "")]).output().unwrap();
        assert!(checked.status.success(), "{}: {}", self.seed, told(&checked));

        // With room on the disk, there is room for files.
        let _ = fs::remove_file(self.disk.join("others"));
        let all: Vec<String> = files.keys().take(files.len().min(150)).cloned().collect();
        let urls: Vec<String> = all.iter().map(|name| url(&server, name)).collect();
        let removed = striate(&["fs", "rm", "-f"]).args(urls).arg(url(&server, "no")).output();
        let removed = removed.unwrap();
        assert!(removed.status.success(), "{}: {}", self.seed, told(&removed));
        files.retain(|name, _| !all.contains(name));
        write(&connect(&server), "at the end", 10_000).unwrap();
        files.insert("at the end".to_owned(), Some(10_000));
        self.compare(&server, &files);
        server.process.signal(Signal::TERM);
        assert!(server.process.ended().success(), "{}", self.seed);
        let directories = (0..servers).map(|i| self.disk.join(format!("data/server-{i}")));
        let checked = striate(&["fsck"]).args(directories).output().unwrap();
        assert!(checked.status.success(), "{}: {}", self.seed, told(&checked));
    }

    fn start(&self, servers: u64) -> Server {
        let data = self.disk.join("data");
        let servers = servers.to_string();
        Server::start(&["--embedded", &servers, "--data", data.to_str().unwrap()])
    }

    /// Ends the servers, in order or not, and starts them again.
    fn restart(&mut self, mut server: Server, servers: u64) -> Server {
        self.fill_by_others();
        if self.random.once_in(2) {
            server.process.signal(Signal::TERM);
            assert!(server.process.ended().success(), "{}", self.seed);
        }
        drop(server);
        self.fill_by_others();
        self.start(servers)
    }

    /// Writes files of all sizes, some from several threads, until there is no space left for any.
    fn write_until_full(&mut self, server: &Server) -> Files {
        let threads = 1 + 2 * self.random.below(2);
        // A name of each file, or one of which few fit into a page of the catalogue.
        let longest = if self.random.once_in(3) { 900 } else { 60 };
        // Some fills are of names more than of data.
        let largest = [20_000, 300_000, 3_000_000][self.random.below(3) as usize];
        let files = Mutex::new(Files::new());
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let mut random = Random::new(self.random.next());
                let files = &files;
                scope.spawn(move || {
                    let client = connect(server);
                    let (mut failures, mut number, mut largest) = (0, 0, largest);
                    while failures < FAILURES && number < 4000 {
                        number += 1;
                        // No part of a name is longer than 255 bytes.
                        let tail = "n".repeat(1 + random.below(longest) as usize % 200);
                        let tail = vec![tail; 1 + random.below(longest) as usize / 200].join("/");
                        let name = format!("d{}/{thread}-{number}{tail}", random.below(5));
                        let len = match random.below(4) {
                            0 => 0,
                            1 => random.below(3000),
                            _ => random.below(largest),
                        } as usize;
                        let written = write(&client, &name, len);
                        let whole = written.is_ok();
                        if let Err((made, error)) = written {
                            assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{name}: {error}");
                            failures += 1;
                            // Smaller ones may fit.
                            largest = (largest / 2).max(1);
                            if !made {
                                continue;
                            }
                        }
                        files.lock().unwrap().insert(name, whole.then_some(len));
                    }
                });
            }
        });
        files.into_inner().unwrap()
    }

    /// Others take all that is left of the disk, if they do.
    fn fill_by_others(&self) {
        if !self.others {
            return;
        }
        let path = self.disk.join("others");
        let Ok(mut others) = File::options().create(true).append(true).open(path) else { return };
        for len in [64 << 10, 1024, 1] {
            while others.write_all(&vec![7; len]).is_ok() {}
        }
        let _ = others.sync_all();
    }

    /// Whether there are these files and no others, with what was written to them.
    fn compare(&self, server: &Server, files: &Files) {
        let client = connect(server);
        let there: Vec<String> =
            client.list("").unwrap().into_iter().map(|file| file.path).collect();
        assert!(there.iter().eq(files.keys()), "{}: {there:?}", self.seed);
        for (name, len) in files {
            let Some(len) = *len else { continue };
            let options = RemoteOptions::default();
            let file = RemoteFile::open_with(&client, &client.url(name), &options).unwrap();
            assert_eq!(file.len().unwrap(), len as u64, "{}: {name}", self.seed);
            let mut back = vec![0; len];
            assert_eq!(file.read_at(0, &mut back).unwrap(), len);
            assert!(back == random(name, len), "{}: {name} differs", self.seed);
        }
    }
}

fn url(server: &Server, name: &str) -> String {
    format!("{}/{name}", server.started["url"].as_str().unwrap())
}

fn connect(server: &Server) -> Client {
    let url = server.started["url"].as_str().unwrap();
    Client::connect(url.trim_start_matches("striate://"), ClientOptions::default()).unwrap()
}

/// Writes a file and makes it durable; of a failure tells whether there is one of this name.
fn write(client: &Client, name: &str, len: usize) -> Result<(), (bool, StoreError)> {
    let options = RemoteOptions { create: true, exclusive: true, ..RemoteOptions::default() };
    let file = RemoteFile::open_with(client, &client.url(name), &options)
        .map_err(|error| (client.lookup(name).is_ok(), error))?;
    let all = || {
        file.write_at(0, &random(name, len))?;
        file.sync()
    };
    all().map_err(|error| (true, error))
}
