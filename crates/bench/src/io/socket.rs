//! Plain sockets to plain files: the rate of a server that only copies.
//!
//! Every server is a thread per connection that receives into a buffer and writes to a file, or
//! reads from the file and sends. There are no frames and no checksums: which bytes a connection is
//! about is sent before a clock runs. A call goes to all servers, an equal part in one piece to
//! each; it is done when each has said so by one byte. Parts of a server lie in a file of its own,
//! at their offset in the whole.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::content::{ByteMismatch, Content};
use super::plan::{Call, IoPlan};
use super::scratch::remove_all;
use super::signal_cleanup::SignalCleanup;
use super::{IoBenchError, IoOp};

/// Bytes that a server copies at a time.
const BUFFER: usize = 256 << 10;

/// What a server says when something is done, and a client when something is to begin.
const DONE: [u8; 1] = [1];

/// The servers, as every rank knows them. All ranks are on one machine.
#[derive(Clone, Debug)]
pub(super) struct Sockets {
    addresses: Vec<SocketAddr>,
    /// What the names of the files begin with.
    files: PathBuf,
}

/// The part of `len` bytes that a server has.
fn part(len: u64, server: usize, servers: usize) -> Range<u64> {
    let start = |server: usize| len / servers as u64 * server as u64;
    start(server)..if server + 1 == servers { len } else { start(server + 1) }
}

impl Sockets {
    /// The servers at addresses that [`Sockets::addresses`] gave.
    pub(super) fn new(addresses: &str, files: PathBuf) -> Self {
        Self { addresses: addresses.split_whitespace().flat_map(str::parse).collect(), files }
    }

    /// Where the servers are, as text.
    pub(super) fn addresses(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        addresses.join(" ")
    }

    /// The error of an attempt on the files.
    pub(super) fn failed(&self, attempted: &'static str, source: io::Error) -> IoBenchError {
        IoBenchError::File { attempted, path: self.files.clone(), source }
    }

    fn path(&self, server: usize, file: u64) -> PathBuf {
        let mut name = self.files.clone().into_os_string();
        name.push(format!("-{server}.{file}"));
        name.into()
    }

    fn paths(&self, files: u64) -> Vec<PathBuf> {
        let servers = 0..self.addresses.len();
        servers.flat_map(|server| (0..files).map(move |file| self.path(server, file))).collect()
    }

    /// Makes new, empty files.
    pub(super) fn renew(&self, files: u64) -> io::Result<()> {
        let paths = self.paths(files);
        remove_all(&paths);
        paths.iter().try_for_each(|path| File::create_new(path).map(drop))
    }

    /// Connects to all servers for the calls of a plan.
    pub(super) fn connect(&self, op: IoOp, plan: &IoPlan) -> io::Result<Vec<TcpStream>> {
        let calls = || plan.steps.iter().flatten();
        let connect = |(server, address): (usize, &SocketAddr)| {
            let mut words = vec![u64::from(op == IoOp::Read), plan.file, calls().count() as u64];
            for call in calls() {
                let part = part(plan.call_bytes(), server, self.addresses.len());
                words.extend([call.offset + part.start, part.end - part.start]);
            }
            let mut stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            let words: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
            stream.write_all(&words)?;
            stream.read_exact(&mut [0])?;
            Ok(stream)
        };
        self.addresses.iter().enumerate().map(connect).collect()
    }

    /// Writes what the calls of a plan should find, without any socket.
    pub(super) fn prepare(&self, plan: &IoPlan) -> io::Result<()> {
        self.each_part(plan, |file, offset, buffer| {
            Content { seed: plan.file }.fill(offset, buffer);
            file.write_all_at(buffer, offset)
        })
    }

    /// The first byte of a plan's calls that is not what it should be.
    pub(super) fn mismatch(&self, plan: &IoPlan) -> io::Result<Option<ByteMismatch>> {
        let mut found = None;
        self.each_part(plan, |file, offset, buffer| {
            file.read_exact_at(buffer, offset)?;
            found = found.or_else(|| Content { seed: plan.file }.mismatch(offset, buffer));
            Ok(())
        })?;
        Ok(found)
    }

    /// Goes through the files of all servers, buffer by buffer of the plan's parts.
    fn each_part(
        &self,
        plan: &IoPlan,
        mut work: impl FnMut(&File, u64, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        for server in 0..self.addresses.len() {
            let path = self.path(server, plan.file);
            let file = OpenOptions::new().read(true).write(true).open(path)?;
            for Call { offset, .. } in plan.steps.iter().flatten() {
                let part = part(plan.call_bytes(), server, self.addresses.len());
                for chunk in chunks(part) {
                    let len = (chunk.end - chunk.start) as usize;
                    work(&file, offset + chunk.start, &mut buffer[..len])?;
                }
            }
        }
        Ok(())
    }
}

/// A range in pieces of at most a buffer.
fn chunks(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    range.step_by(BUFFER).map(move |start| start..end.min(start + BUFFER as u64))
}

/// The bytes of memory that all servers have, in turn, so that they work at the same time.
fn in_turn(len: u64, servers: usize) -> Vec<(usize, Range<usize>)> {
    let mut all = Vec::new();
    for server in 0..servers {
        let pieces = chunks(part(len, server, servers)).enumerate();
        let piece = |chunk: Range<u64>| chunk.start as usize..chunk.end as usize;
        all.extend(pieces.map(|(round, chunk)| (round, server, piece(chunk))));
    }
    all.sort_by_key(|(round, server, _)| (*round, *server));
    all.into_iter().map(|(_, server, piece)| (server, piece)).collect()
}

/// A write of all servers' parts.
pub(super) fn write(streams: &mut [TcpStream], memory: &[u8]) -> io::Result<()> {
    for (server, piece) in in_turn(memory.len() as u64, streams.len()) {
        streams[server].write_all(&memory[piece])?;
    }
    streams.iter_mut().try_for_each(|stream| stream.read_exact(&mut [0]))
}

/// A read of all servers' parts.
pub(super) fn read(streams: &mut [TcpStream], memory: &mut [u8]) -> io::Result<()> {
    streams.iter_mut().try_for_each(|stream| stream.write_all(&DONE))?;
    for (server, piece) in in_turn(memory.len() as u64, streams.len()) {
        streams[server].read_exact(&mut memory[piece])?;
    }
    Ok(())
}

/// After the last call: waits until all is durable.
pub(super) fn sync(streams: &mut [TcpStream]) -> io::Result<()> {
    streams.iter_mut().try_for_each(|stream| stream.write_all(&DONE))?;
    streams.iter_mut().try_for_each(|stream| stream.read_exact(&mut [0]))
}

/// The servers themselves. Dropped, they accept no more, and their files are removed.
#[derive(Debug)]
pub(super) struct SocketServers {
    sockets: Sockets,
    paths: Vec<PathBuf>,
    stop: Arc<AtomicBool>,
    accepting: Vec<JoinHandle<()>>,
    _signal_cleanup: SignalCleanup,
}

impl SocketServers {
    /// Starts so many, for so many files each, whose names begin with `files`.
    pub(super) fn start(servers: usize, files: &Path, count: u64) -> io::Result<Self> {
        let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listeners = (0..servers).map(bind).collect::<io::Result<Vec<_>>>()?;
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
        let sockets = Sockets { addresses, files: files.to_path_buf() };
        let paths = sockets.paths(count);
        let stop = Arc::new(AtomicBool::new(false));
        let accept = |(server, listener): (usize, TcpListener)| {
            let (sockets, stop) = (sockets.clone(), Arc::clone(&stop));
            thread::spawn(move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                    let (Ok(stream), sockets) = (stream, sockets.clone()) else { continue };
                    // If a connection fails, its client sees it end.
                    thread::spawn(move || serve(stream, |file| sockets.path(server, file)));
                }
            })
        };
        let accepting = listeners.into_iter().enumerate().map(accept).collect();
        let removed = paths.clone();
        let signal_cleanup = SignalCleanup::new(move || remove_all(&removed));
        Ok(Self { sockets, paths, stop, accepting, _signal_cleanup: signal_cleanup })
    }

    /// How ranks reach them.
    pub(super) fn sockets(&self) -> &Sockets {
        &self.sockets
    }
}

impl Drop for SocketServers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for address in &self.sockets.addresses {
            // Ends the wait for a connection.
            let _ = TcpStream::connect(address);
        }
        for thread in self.accepting.drain(..) {
            let _ = thread.join();
        }
        remove_all(&self.paths);
    }
}

/// One connection, from what it is about to its end.
fn serve(mut stream: TcpStream, path: impl Fn(u64) -> PathBuf) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let [read, file, count] = [word(&mut stream)?, word(&mut stream)?, word(&mut stream)?];
    let mut parts = Vec::new();
    for _ in 0..count {
        parts.push((word(&mut stream)?, word(&mut stream)?));
    }
    let file = OpenOptions::new().read(true).write(true).open(path(file))?;
    let mut buffer = vec![0; BUFFER];
    stream.write_all(&DONE)?;
    for (offset, len) in parts {
        if read != 0 {
            stream.read_exact(&mut [0])?;
        }
        for chunk in chunks(offset..offset + len) {
            let buffer = &mut buffer[..(chunk.end - chunk.start) as usize];
            if read != 0 {
                file.read_exact_at(buffer, chunk.start)?;
                stream.write_all(buffer)?;
            } else {
                stream.read_exact(buffer)?;
                file.write_all_at(buffer, chunk.start)?;
            }
        }
        if read == 0 {
            stream.write_all(&DONE)?;
        }
    }
    if stream.read(&mut [0])? == 1 {
        file.sync_all()?;
        stream.write_all(&DONE)?;
    }
    Ok(())
}

fn word(stream: &mut TcpStream) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_goes_to_one_server() {
        for len in [0, 1, 3, 4, 1000, 262_144, 3_000_001] {
            for servers in [1, 3, 4] {
                let mut touched = vec![0; len];
                for (_, piece) in in_turn(len as u64, servers) {
                    touched[piece].iter_mut().for_each(|n| *n += 1);
                }
                assert!(touched.iter().all(|n| *n == 1), "{len} over {servers}");
            }
        }
    }
}
