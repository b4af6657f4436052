//! Servers that crash, come back on other storage, or answer late, and what their clients make of
//! it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use striate_server::{Server, Settings};
use striate_store::remote::{Client, ClientOptions, Layout, RemoteFile, RemoteOptions};
use striate_store::{ErrorKind, Store, StoreError};

/// A metadata server, and I/O servers that can be stopped and started at their addresses.
struct Site {
    place: tempfile::TempDir,
    metadata: Server,
    io: Vec<Option<Server>>,
    addresses: Vec<SocketAddr>,
}

impl Site {
    fn start(servers: usize) -> Self {
        Self::with(servers, |_| {})
    }

    fn with(servers: usize, change: impl Fn(&mut Settings)) -> Self {
        let place = tempfile::tempdir().unwrap();
        let io: Vec<_> = (0..servers)
            .map(|i| {
                let mut settings = settings(place.path().join(format!("io{i}")));
                change(&mut settings);
                Some(Server::start(settings).unwrap())
            })
            .collect();
        let addresses: Vec<_> = io.iter().flatten().map(Server::address).collect();
        let mut settings = settings(place.path().join("meta"));
        settings.metadata = true;
        settings.servers = addresses.iter().map(SocketAddr::to_string).collect();
        let metadata = Server::start(settings).unwrap();
        Self { place, metadata, io, addresses }
    }

    fn directory(&self, server: usize) -> PathBuf {
        self.place.path().join(format!("io{server}"))
    }

    fn address(&self, server: usize) -> String {
        self.addresses[server].to_string()
    }

    /// Ends a server as a crash does, or in order.
    fn stop(&mut self, server: usize, in_order: bool) {
        let stopped = self.io[server].take().unwrap();
        if in_order {
            stopped.drain();
        }
    }

    /// Starts a server at its address, on a directory.
    fn start_on(&mut self, server: usize, data: &Path) {
        let listen = self.addresses[server];
        let start = || Server::start(Settings { listen, ..settings(data.to_owned()) });
        // The directory is locked until the last thread of the server before has ended.
        let begin = Instant::now();
        let started = loop {
            match start() {
                Err(_) if begin.elapsed() < Duration::from_secs(30) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                started => break started.unwrap(),
            }
        };
        self.io[server] = Some(started);
    }

    fn start_again(&mut self, server: usize) {
        self.start_on(server, &self.directory(server));
    }

    /// Loses what a server has of a file beyond so many bytes, as a power cut does.
    fn cut_object(&self, server: usize, file: &RemoteFile, len: u64) {
        let object = std::fs::OpenOptions::new().write(true).open(self.object(server, file));
        object.unwrap().set_len(len).unwrap();
    }

    fn object(&self, server: usize, file: &RemoteFile) -> PathBuf {
        let id = file.info().file;
        self.directory(server).join(format!("objects/{:02x}/{id:016x}", id & 0xff))
    }

    fn client(&self, options: ClientOptions) -> Client {
        Client::connect(&self.metadata.address().to_string(), options).unwrap()
    }
}

fn open(client: &Client) -> RemoteFile {
    let layout = Layout { strip: 512, first: Some(0), ..Layout::default() };
    let options = RemoteOptions { create: true, exclusive: false, layout };
    RemoteFile::open_with(client, &client.url("file"), &options).unwrap()
}

fn open_existing(client: &Client) -> RemoteFile {
    RemoteFile::open_with(client, &client.url("file"), &RemoteOptions::default()).unwrap()
}

fn settings(data: PathBuf) -> Settings {
    Settings { data, listen: "127.0.0.1:0".parse().unwrap(), ..Settings::default() }
}

fn options(seconds: u64) -> ClientOptions {
    ClientOptions { patience: Duration::from_secs(seconds), ..ClientOptions::default() }
}

fn numbers(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + seed) as u8).collect()
}

fn content(file: &RemoteFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn says(error: &StoreError, address: &str, text: &str) {
    let said = error.to_string();
    assert!(said.contains(address) && said.contains(text) && said.contains("/file"), "{said}");
}

#[test]
fn what_a_crash_lost_is_written_again_before_a_sync_succeeds() {
    let mut site = Site::start(2);
    let client = site.client(options(60));
    let file = open(&client);
    let mut expected = numbers(10_000, 0);
    file.write_at(0, &expected).unwrap();
    site.stop(1, false);
    site.cut_object(1, &file, 0);
    site.start_again(1);
    // A later write to the same bytes stays the later one.
    expected[600..700].fill(7);
    file.write_at(600, &[7; 100]).unwrap();
    file.sync().unwrap();
    assert_eq!(content(&file), expected);

    // What was synced is not written again.
    let written = || site.io[1].as_ref().unwrap().statistics().bytes_written.get();
    let before = written();
    file.sync().unwrap();
    assert_eq!(written(), before);
}

#[test]
fn reads_after_a_crash_see_what_was_written_before() {
    let mut site = Site::start(1);
    let client = site.client(options(60));
    let file = open(&client);
    file.write_at(0, &numbers(5000, 1)).unwrap();
    file.set_len(4000).unwrap();
    file.write_at(4500, b"end").unwrap();
    let expected = content(&file);
    site.stop(0, false);
    site.cut_object(0, &file, 0);
    site.start_again(0);
    let mut found = vec![0; 4503];
    assert_eq!(file.read_at(0, &mut found).unwrap(), 4503);
    assert_eq!(found, expected);
    file.sync().unwrap();
}

#[test]
fn a_sync_says_once_what_was_lost_for_good() {
    let mut site = Site::start(2);
    let client = site.client(ClientOptions { unsynced: 0, ..options(60) });
    let (file, other) = (open(&client), open(&client));
    file.write_at(0, &numbers(10_000, 0)).unwrap();
    other.write_at(20_000, b"other").unwrap();
    site.stop(1, false);
    site.cut_object(1, &file, 0);
    site.start_again(1);
    let error = file.sync().unwrap_err();
    says(&error, &site.address(1), "may have lost 4880 bytes");
    assert_eq!(error.kind(), ErrorKind::Io);
    // It is known now; and what is written from now on is durable.
    file.write_at(0, &numbers(10_000, 0)).unwrap();
    file.sync().unwrap();
    // Every handle is told about what was written through it.
    says(&other.sync().unwrap_err(), &site.address(1), "may have lost 5 bytes");
    other.sync().unwrap();
}

#[test]
fn a_server_that_stopped_in_order_is_not_noticed() {
    let mut site = Site::start(2);
    // Nothing could be written again.
    let client = site.client(ClientOptions { unsynced: 0, ..options(60) });
    let file = open(&client);
    let expected = numbers(10_000, 0);
    for round in 0..3 {
        file.write_at(0, &expected).unwrap();
        site.stop(round % 2, true);
        site.start_again(round % 2);
        file.sync().unwrap();
        assert_eq!(content(&file), expected);
    }
}

#[test]
fn a_restart_takes_no_longer_than_the_patience() {
    let mut site = Site::start(1);
    let client = site.client(options(60));
    let file = open(&client);
    site.stop(0, false);
    std::thread::scope(|scope| {
        let writer =
            scope.spawn(|| file.write_at(0, &numbers(10_000, 0)).and_then(|()| file.sync()));
        std::thread::sleep(Duration::from_secs(2));
        site.start_again(0);
        writer.join().unwrap().unwrap();
    });
}

/// A write that failed since the server was slow is not carried out after a newer one.
#[test]
fn a_failed_write_does_not_come_back() {
    let site = Site::with(1, |settings| settings.delay = Duration::from_millis(700));
    let client = site
        .client(ClientOptions { patience: Duration::from_millis(200), ..ClientOptions::default() });
    let file = open(&client);
    for round in 0..3 {
        let error = file.write_at(0, b"old data").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        // Another client is not held up by this one.
        let patient = site.client(options(60));
        let mut newer = None;
        for _ in 0..200 {
            // A new connection of the same client waits for the end of the old one.
            match file.len() {
                Ok(_) => {
                    newer = Some(open(&patient).write_at(0, b"new data"));
                    break;
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        newer.unwrap().unwrap();
        std::thread::sleep(Duration::from_millis(800));
        assert_eq!(content(&open(&patient)), b"new data", "round {round}");
    }
}

#[test]
fn other_storage_is_no_data() {
    let mut site = Site::start(2);
    let client = site.client(options(2));
    let file = open(&client);
    let expected = numbers(10_000, 0);
    file.write_at(0, &expected).unwrap();
    file.sync().unwrap();
    let empty = site.place.path().join("empty");
    let swapped = site.directory(0);
    site.stop(0, true);
    for wrong in [empty, swapped] {
        site.stop(1, true);
        site.start_on(1, &wrong);
        for client in [client.clone(), site.client(options(2))] {
            let file = open_existing(&client);
            let why = "it was started on another data directory";
            let mut bytes = vec![0; 10_000];
            says(&file.read_at(0, &mut bytes).unwrap_err(), &site.address(1), why);
            says(&file.write_at(0, &bytes).unwrap_err(), &site.address(1), why);
            client.servers().unwrap();
            let error = client.identify(&site.address(1)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
    site.stop(1, true);
    site.start_again(0);
    site.start_again(1);
    assert_eq!(content(&file), expected);

    // Accepted storage is new: what lay on the other is missing, and that is said.
    site.stop(1, true);
    site.start_on(1, &site.place.path().join("new"));
    client.accept_storage(&site.address(1)).unwrap();
    let error = file.read_at(0, &mut vec![0; 10_000]).unwrap_err();
    says(&error, &site.address(1), "its storage has lost them");
}

#[test]
fn a_missing_or_short_object_is_no_zeros() {
    for len in [None, Some(100)] {
        let site = Site::start(2);
        let client = site.client(options(5));
        let file = open(&client);
        file.write_at(0, &numbers(10_000, 0)).unwrap();
        file.sync().unwrap();
        drop((file, client));
        let client = site.client(options(5));
        let file = open(&client);
        // Opening a file for writing does not bring an object back.
        drop(open(&client));
        match len {
            None => std::fs::remove_file(site.object(1, &file)).unwrap(),
            Some(len) => site.cut_object(1, &file, len),
        }
        let mut site = site;
        site.stop(1, true);
        site.start_again(1);
        let why = "the catalogue knows of 4880";
        says(&file.read_at(0, &mut [0; 10_000]).unwrap_err(), &site.address(1), why);
        says(&file.len().unwrap_err(), &site.address(1), why);
        // The other server has its bytes.
        assert_eq!(file.read_at(0, &mut [0; 512]).unwrap(), 512);
        if len.is_none() {
            says(&file.write_at(600, b"new").unwrap_err(), &site.address(1), why);
        }
        drop(open(&client));
        says(&file.read_at(0, &mut [0; 10_000]).unwrap_err(), &site.address(1), why);
    }
}

#[test]
fn holes_and_ends_are_zeros_and_ends() {
    let site = Site::start(3);
    let (one, two) = (site.client(options(5)), site.client(options(5)));
    let (file, other) = (open(&one), open(&two));
    // The first server has no byte, the third has an end.
    file.write_at(1024 + 3 * 512, b"end").unwrap();
    file.sync().unwrap();
    let mut expected = vec![0; 2563];
    expected[2560..].copy_from_slice(b"end");
    assert_eq!((content(&file), content(&other)), (expected.clone(), expected));
    // Made shorter by another client, and longer again.
    other.set_len(700).unwrap();
    assert_eq!(content(&file), [0; 700]);
    file.sync().unwrap();
    other.set_len(5000).unwrap();
    file.set_len(10).unwrap();
    other.sync().unwrap();
    assert_eq!((content(&file), content(&other)), (vec![0; 10], vec![0; 10]));
}

/// The client that creates a file may be gone before it has made the objects.
#[test]
fn a_file_without_objects_is_empty() {
    let site = Site::start(2);
    let client = site.client(options(5));
    let file = open(&client);
    for server in 0..2 {
        std::fs::remove_file(site.object(server, &file)).unwrap();
    }
    drop((file, client));
    let mut site = site;
    for server in 0..2 {
        site.stop(server, true);
        site.start_again(server);
    }
    let file = open_existing(&site.client(options(5)));
    assert_eq!(content(&file), b"");
    file.write_at(0, &[1; 2000]).unwrap();
    file.sync().unwrap();
    assert_eq!(content(&file), [1; 2000]);
}
