//! Servers and clients on nodes of a lab, whose links are cut, whose processes are killed and whose
//! power fails, while a job writes.
//!
//! The job logs what it does; what a crash may lose, it loses: bytes that no sync had begun for are
//! taken back in the objects of a server that was killed. In the end, every byte must be what was
//! acknowledged last, and no call may have failed: faults are shorter than the patience. A few
//! rounds run with all tests; `STRIATE_ROUNDS=100 cargo test -p striate-cli --test lab_faults` runs
//! more.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use striate_lab::{Lab, LabSettings, Link, Rate};
use striate_store::Store;
use striate_store::remote::{Client, ClientOptions, RemoteFile, RemoteOptions};

const STRIATE: &str = env!("CARGO_BIN_EXE_striate");

/// Bytes of the file, and of a strip.
const LEN: usize = 300_000;
const STRIP: usize = 4096;
const SERVERS: usize = 2;

/// The nodes.
const METADATA: usize = 0;
const FIRST_SERVER: usize = 1;
const CLIENT: usize = 3;

/// Longer than any fault.
const PATIENCE: Duration = Duration::from_secs(30);

/// Numbers that look random.
struct JobDice(u64);

impl JobDice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// The next write of a job.
    fn write(&mut self) -> (usize, Vec<u8>) {
        let offset = self.below(LEN as u64 - 1) as usize;
        let len = (1 + self.below(20_000) as usize).min(LEN - offset);
        let mut bytes = Self(self.below(1 << 30));
        (offset, (0..len).map(|_| bytes.below(256) as u8).collect())
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

/// Writes until it is told to stop. A line of the log says that a write begins, a sync begins, or a
/// sync has succeeded.
#[test]
#[ignore = "a role in a node"]
fn job() {
    let mut log = OpenOptions::new().append(true).open(variable("LOG")).unwrap();
    let mut line = |text: &str| log.write_all(format!("{text}\n").as_bytes()).unwrap();
    let options = ClientOptions { patience: PATIENCE, ..ClientOptions::default() };
    let client = Client::connect(&variable("METADATA"), options).unwrap();
    let file =
        RemoteFile::open_with(&client, &client.url(&variable("FILE")), &RemoteOptions::default())
            .unwrap();
    let mut dice = JobDice(variable("SEED").parse().unwrap());
    let mut longest = Duration::ZERO;
    let mut timed =
        |what: &str, call: &mut dyn FnMut() -> Result<(), striate_store::StoreError>| {
            let begin = Instant::now();
            let result = call();
            longest = longest.max(begin.elapsed());
            if let Err(error) = result {
                panic!("{what}: {error}");
            }
            longest
        };
    let stop = PathBuf::from(variable("STOP"));
    for number in 1.. {
        let ends = stop.exists();
        let (offset, bytes) = dice.write();
        line("write");
        timed("write", &mut || file.write_at(offset as u64, &bytes));
        if number % 7 == 0 || ends {
            line("sync");
            let longest = timed("sync", &mut || file.sync());
            line("synced");
            if ends {
                line(&format!("longest {}", longest.as_millis()));
                return;
            }
        }
        sleep(Duration::from_millis(2));
    }
}

/// A server in a node.
struct LabServer {
    node: usize,
    process: Child,
    pid: String,
}

impl Drop for LabServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct LabSite {
    place: tempfile::TempDir,
    lab: Lab,
    servers: Vec<Option<LabServer>>,
}

impl LabSite {
    fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let program = std::env::current_exe().unwrap();
        let settings = LabSettings::new(4, Link::both(Rate::mbit(100)))
            .share(place.path())
            .share(program.parent().unwrap())
            .share(Path::new(STRIATE).parent().unwrap());
        let lab = Lab::up(&settings).unwrap();
        let mut site = Self { place, lab, servers: vec![None, None, None] };
        for node in [1, 2, METADATA] {
            site.serve(node);
        }
        site
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn address(&self, node: usize) -> String {
        format!("{}:7479", self.lab.nodes()[node].address)
    }

    fn serve(&mut self, node: usize) {
        let mut command = self.lab.command(node, STRIATE).unwrap();
        command.args(["serve", "--json", "--log", "off", "--allow-anyone", "--data"]);
        command.arg(self.at(&format!("data-{node}")));
        command.args(["--listen", &self.address(node)]);
        if node == METADATA {
            let servers = [self.address(1), self.address(2)].join(",");
            command.args(["--meta", "--servers", &servers]);
        }
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).unwrap();
        let pid = started["pid"].to_string();
        self.servers[node] = Some(LabServer { node, process, pid });
    }

    /// Ends a server in order, and waits for its end.
    fn drain(&mut self, node: usize) {
        let mut server = self.servers[node].take().unwrap();
        let mut kill = self.lab.command(server.node, "kill").unwrap();
        assert!(kill.args(["-TERM", &server.pid]).status().unwrap().success());
        assert!(server.process.wait().unwrap().success());
    }

    /// Loses what a killed server had not synced: bytes that were written after the last sync
    /// began.
    fn lose(&self, node: usize, seed: u64, log: &Path) {
        if node == METADATA {
            return;
        }
        // What the server has answered arrives, and is logged.
        sleep(Duration::from_millis(300));
        let log = JobLog::read(log);
        let mut dice = JobDice(seed);
        let writes: Vec<_> = (0..log.writes).map(|_| dice.write()).collect();
        let (before, after) = writes.split_at(log.sync_begun);
        let mut content = vec![0; LEN];
        for (offset, bytes) in before {
            put(&mut content, *offset, bytes);
        }
        let Some(object) = self.object(node, seed) else { return };
        let object = OpenOptions::new().write(true).open(object).unwrap();
        for (offset, bytes) in after {
            for at in *offset..offset + bytes.len() {
                let (strip, within) = (at / STRIP, at % STRIP);
                if strip % SERVERS == node - FIRST_SERVER {
                    let place = strip / SERVERS * STRIP + within;
                    object.write_all_at(&content[at..=at], place as u64).unwrap();
                }
            }
        }
    }

    /// The object of a round's file, the only one with the highest id.
    fn object(&self, node: usize, _seed: u64) -> Option<PathBuf> {
        let shelves = fs::read_dir(self.at(&format!("data-{node}/objects"))).unwrap();
        let objects = shelves.flat_map(|shelf| fs::read_dir(shelf.unwrap().path()).unwrap());
        objects
            .map(|object| object.unwrap().path())
            .max_by_key(|path| path.file_name().map(ToOwned::to_owned))
    }

    fn kill_server(&mut self, node: usize, seed: u64, log: &Path) {
        self.servers[node] = None;
        self.lose(node, seed, log);
    }

    fn kill_node(&mut self, node: usize, seed: u64, log: &Path) {
        self.lab.kill(node).unwrap();
        self.servers[node] = None;
        self.lose(node, seed, log);
    }

    /// A command of ours in the node of the client; what it says.
    fn striate(&self, arguments: &[&str]) -> String {
        let mut command = self.lab.command(CLIENT, STRIATE).unwrap();
        let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}");
        text
    }

    fn url(&self, file: &str) -> String {
        format!("striate://{}/{file}", self.address(METADATA))
    }

    fn job(&self, file: &str, seed: u64, log: &Path, stop: &Path) -> Child {
        let program = std::env::current_exe().unwrap();
        let mut command = self.lab.command(CLIENT, program).unwrap();
        command.args(["job", "--exact", "--ignored", "--nocapture"]);
        command.env("METADATA", self.address(METADATA)).env("FILE", file);
        command.env("SEED", seed.to_string()).env("LOG", log).env("STOP", stop);
        let said = File::create(self.at("said")).unwrap();
        command.stdin(Stdio::null()).stdout(said.try_clone().unwrap()).stderr(said);
        command.spawn().unwrap()
    }
}

fn put(content: &mut [u8], offset: usize, bytes: &[u8]) {
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// How far a job came.
#[derive(Debug, Default)]
struct JobLog {
    writes: usize,
    /// Writes before the last sync that began, and before the last that succeeded.
    sync_begun: usize,
    synced: usize,
    longest_ms: Option<u64>,
}

impl JobLog {
    fn read(path: &Path) -> Self {
        let mut log = Self::default();
        for line in fs::read_to_string(path).unwrap().lines() {
            match line.split_once(' ') {
                Some(("longest", ms)) => log.longest_ms = Some(ms.parse().unwrap()),
                _ => match line {
                    "write" => log.writes += 1,
                    "sync" => log.sync_begun = log.writes,
                    "synced" => log.synced = log.sync_begun,
                    other => panic!("{other}"),
                },
            }
        }
        log
    }
}

/// What happens in a round.
#[derive(Clone, Copy, Debug)]
enum LabFault {
    CutServer,
    CutMetadata,
    CutClient,
    KillServer,
    KillMetadata,
    DrainServer,
    DrainMetadata,
    KillServerNode,
    KillMetadataNode,
    KillClient,
    LossyServer,
    SlowServer,
}

const FAULTS: [LabFault; 12] = [
    LabFault::KillServer,
    LabFault::CutServer,
    LabFault::DrainServer,
    LabFault::KillServerNode,
    LabFault::KillClient,
    LabFault::LossyServer,
    LabFault::KillMetadata,
    LabFault::CutClient,
    LabFault::SlowServer,
    LabFault::CutMetadata,
    LabFault::DrainMetadata,
    LabFault::KillMetadataNode,
];

impl LabSite {
    /// Makes something happen, and mends it after `pause`. Returns whether the client lives.
    fn suffer(
        &mut self,
        fault: LabFault,
        server: usize,
        pause: Duration,
        job: &mut Child,
        seed: u64,
        log: &Path,
    ) -> bool {
        let cut = |site: &mut Self, node: usize| {
            site.lab.cut(node).unwrap();
            sleep(pause);
            site.lab.restore(node).unwrap();
        };
        let kill = |site: &mut Self, node: usize| {
            site.kill_server(node, seed, log);
            sleep(pause);
            site.serve(node);
        };
        let drain = |site: &mut Self, node: usize| {
            site.drain(node);
            sleep(pause);
            site.serve(node);
        };
        let kill_node = |site: &mut Self, node: usize| {
            site.kill_node(node, seed, log);
            sleep(pause);
            site.lab.start(node).unwrap();
            site.serve(node);
        };
        let slow = |site: &mut Self, link: Link| {
            site.lab.set_link(server, link).unwrap();
            sleep(pause);
            site.lab.set_link(server, Link::both(Rate::mbit(100))).unwrap();
        };
        match fault {
            LabFault::CutServer => cut(self, server),
            LabFault::CutMetadata => cut(self, METADATA),
            LabFault::CutClient => cut(self, CLIENT),
            LabFault::KillServer => kill(self, server),
            LabFault::KillMetadata => kill(self, METADATA),
            LabFault::DrainServer => drain(self, server),
            LabFault::DrainMetadata => drain(self, METADATA),
            LabFault::KillServerNode => kill_node(self, server),
            LabFault::KillMetadataNode => kill_node(self, METADATA),
            LabFault::LossyServer => slow(self, Link::both(Rate::mbit(100)).with_loss(0.05)),
            LabFault::SlowServer => slow(self, Link::both(Rate::mbit(1))),
            LabFault::KillClient => {
                job.kill().unwrap();
                job.wait().unwrap();
                return false;
            }
        }
        true
    }
}

fn rounds(few: u64) -> u64 {
    std::env::var("STRIATE_ROUNDS").map_or(few, |text| text.parse().expect("a number of rounds"))
}

/// Whether this is a machine on which nodes of namespaces are forbidden, as its user said.
fn without_lab() -> bool {
    std::env::var_os("STRIATE_NO_LAB").is_some()
}

/// Commands and ranks that are threads end with an error that names the server.
#[test]
fn a_server_that_is_cut_off_for_good_is_named() {
    if without_lab() {
        return;
    }
    let mut site = LabSite::start();
    let small = site.at("small");
    fs::write(&small, vec![7; LEN]).unwrap();
    let (small, file, store) =
        (small.to_str().unwrap().to_owned(), site.url("small"), site.url("bench"));
    site.striate(&["fs", "cp", &small, &file]);
    site.lab.cut(2).unwrap();
    let bench = ["bench", "strided", "--block", "4096", "--ranks", "4", "--store", &store];
    for arguments in [&["fs", "cp", &small, &file][..], &bench] {
        let mut command = site.lab.command(CLIENT, STRIATE).unwrap();
        command.args(arguments).env("STRIATE_PATIENCE", "2s").stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(&site.address(2)), "{said}");
    }
    assert!(site.lab.processes(CLIENT).unwrap().is_empty());
}

#[test]
fn a_job_goes_on_whatever_happens_to_its_servers() {
    if without_lab() {
        return;
    }
    let mut site = LabSite::start();
    let mut dice = JobDice(11);
    let (mut syncs, mut longest) = (0, 0);
    for round in 0..rounds(FAULTS.len() as u64) {
        let begin = Instant::now();
        let fault = FAULTS[(round % FAULTS.len() as u64) as usize];
        let server = FIRST_SERVER + dice.below(SERVERS as u64) as usize;
        let pause = Duration::from_millis(match fault {
            // As long as the restart that once failed clients.
            LabFault::KillServer if round < FAULTS.len() as u64 => 2000,
            _ => 50 + dice.below(1500),
        });
        let name = format!("round-{round}");
        let seed = 1000 + round;
        let (log, stop) = (site.at(&format!("{name}.log")), site.at(&format!("{name}.stop")));
        File::create(&log).unwrap();
        // In its full length, so that the objects are what the arithmetic here says.
        let empty = site.at("empty");
        fs::write(&empty, vec![0; LEN]).unwrap();
        let strip = STRIP.to_string();
        let url = site.url(&name);
        site.striate(&[
            "fs",
            "cp",
            "--strip",
            &strip,
            "--first",
            "0",
            empty.to_str().unwrap(),
            &url,
        ]);

        let mut job = site.job(&name, seed, &log, &stop);
        sleep(Duration::from_millis(100 + dice.below(400)));
        let lives = site.suffer(fault, server, pause, &mut job, seed, &log);
        sleep(Duration::from_millis(100 + dice.below(300)));
        fs::write(&stop, "").unwrap();
        let what = format!("round {round}, {fault:?} of node {}", server + 1);
        if lives {
            let limit = Instant::now() + PATIENCE + Duration::from_secs(10);
            let status = loop {
                if let Some(status) = job.try_wait().unwrap() {
                    break status;
                }
                assert!(Instant::now() < limit, "{what}: the job hangs");
                sleep(Duration::from_millis(10));
            };
            let said = fs::read_to_string(site.at("said")).unwrap();
            assert!(status.success(), "{what}: {said}");
        }
        let log = JobLog::read(&log);
        let back = site.at("back");
        site.striate(&["fs", "cp", &url, back.to_str().unwrap()]);
        check(&log, seed, lives, &fs::read(&back).unwrap(), &what);
        site.striate(&["fs", "rm", &url]);
        println!(
            "{what}: {} writes, {:?}, longest {:?} ms",
            log.writes,
            begin.elapsed(),
            log.longest_ms
        );
        syncs += log.synced;
        longest = longest.max(log.longest_ms.unwrap_or(0));
    }
    println!("{syncs} writes were synced; the longest call took {longest} ms");
    assert!(syncs > 0);
    let url = site.url("");
    site.striate(&["fsck", &url]);
    site.striate(&["fs", "health", &url]);
}

/// Every byte is that of the last write that was synced, or of one after it.
fn check(log: &JobLog, seed: u64, all: bool, found: &[u8], what: &str) {
    assert!(!all || log.synced == log.writes, "{what}: {log:?}");
    let mut dice = JobDice(seed);
    let mut durable = vec![0; LEN];
    for _ in 0..log.synced {
        let (offset, bytes) = dice.write();
        put(&mut durable, offset, &bytes);
    }
    let later: Vec<_> = (log.synced..log.writes).map(|_| dice.write()).collect();
    assert_eq!(found.len(), LEN, "{what}");
    for (i, byte) in found.iter().enumerate() {
        let written = |(offset, bytes): &(usize, Vec<u8>)| {
            i.checked_sub(*offset).and_then(|at| bytes.get(at)) == Some(byte)
        };
        assert!(
            *byte == durable[i] || later.iter().any(written),
            "{what}: byte {i} is not what was synced: {log:?}"
        );
    }
}
