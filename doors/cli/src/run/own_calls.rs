//! Programs of a run whose calls are not intercepted: they make system calls directly, not through
//! the C library.
//!
//! Those are programs that are linked statically, for which there is no loader that could load it,
//! and Go programs, which use the C library for other things at most. [`Watch`] looks at the
//! program that was asked for, and every now and then at the processes that it has started: one
//! that is short may be missed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Processes are looked at after so long, then after twice as long …
const FIRST_INTERVAL: Duration = Duration::from_millis(5);
/// … up to this.
const LONGEST_INTERVAL: Duration = Duration::from_millis(200);
/// The longest part of a file that is looked at.
const LONGEST: usize = 1 << 16;

/// Why calls of a program are not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnseenReason {
    Static,
    Go,
}

/// A program whose calls were not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnseenProgram {
    pub(crate) program: PathBuf,
    pub(crate) why: UnseenReason,
}

impl UnseenProgram {
    /// The message about it.
    pub(crate) fn sentence(&self) -> String {
        let why = match self.why {
            UnseenReason::Static => "is linked statically",
            UnseenReason::Go => "is a Go program",
        };
        format!(
            "{} {why} and made its calls by itself: none of them was seen; \
             'striate run --mount' sees them, and 'striate mount' those of all programs",
            self.program.display()
        )
    }
}

/// Looks after the processes of a run.
#[derive(Debug)]
pub(super) struct Watch {
    over: Sender<()>,
    thread: Option<JoinHandle<BTreeMap<PathBuf, UnseenReason>>>,
}

impl Watch {
    /// From now on children of this process are looked at.
    pub(super) fn start(program: &OsStr) -> Self {
        let mut found = BTreeMap::new();
        if let Some(path) = in_path(program)
            && let Some(why) = of_program(&path)
        {
            found.insert(path, why);
        }
        let (over, ended) = channel();
        let look = move || {
            let mut known = BTreeMap::new();
            let mut interval = FIRST_INTERVAL;
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                interval = (interval * 2).min(LONGEST_INTERVAL);
                look_at_children(std::process::id(), &mut known);
            }
            let unseen = known.into_iter().filter_map(|(path, why)| Some((path, why?)));
            found.extend(unseen);
            found
        };
        Self { over, thread: std::thread::Builder::new().spawn(look).ok() }
    }

    /// The programs whose calls were not seen.
    pub(super) fn end(self) -> Vec<UnseenProgram> {
        drop(self.over);
        let found = self.thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
        found.into_iter().map(|(program, why)| UnseenProgram { program, why }).collect()
    }
}

/// Notes the programs of all processes below one.
fn look_at_children(process: u32, known: &mut BTreeMap<PathBuf, Option<UnseenReason>>) {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_ascii_whitespace().filter_map(|word| word.parse().ok()) {
            let program = format!("/proc/{child}/exe");
            if let Ok(path) = std::fs::read_link(&program)
                && !known.contains_key(&path)
            {
                let why = of_file(Path::new(&program)).ok().flatten();
                known.insert(path, why);
            }
            look_at_children(child, known);
        }
    }
}

/// The file that a command stands for.
fn in_path(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Path::new(program).canonicalize().ok();
    }
    let path = std::env::var_os("PATH")?;
    let candidates = std::env::split_paths(&path).map(|directory| directory.join(program));
    candidates.filter(|path| path.is_file()).find_map(|path| path.canonicalize().ok())
}

/// Whether calls of a program, or of the interpreter of a script, are not seen.
fn of_program(path: &Path) -> Option<UnseenReason> {
    let mut file = BufReader::new(File::open(path).ok()?);
    if !file.fill_buf().ok()?.starts_with(b"#!") {
        return of_file(path).ok()?;
    }
    let mut line = Vec::new();
    file.read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8(line).ok()?;
    let interpreter = line.get(2..)?.split_ascii_whitespace().next()?;
    of_file(Path::new(interpreter)).ok()?
}

/// What is needed of a program header.
struct Segment {
    kind: u32,
    offset: u64,
    length: u64,
}

const INTERPRETER: u32 = 3;
const NOTES: u32 = 4;

/// Whether calls of an executable file are not seen.
fn of_file(path: &Path) -> io::Result<Option<UnseenReason>> {
    let is_loader = |name: &OsStr| name.as_bytes().starts_with(b"ld-") || name == "ld.so";
    if path.file_name().is_some_and(is_loader) {
        return Ok(None);
    }
    let file = File::open(path)?;
    let Some(segments) = segments(&file)? else { return Ok(None) };
    for segment in segments.iter().filter(|segment| segment.kind == NOTES) {
        let mut notes = vec![0; (segment.length as usize).min(LONGEST)];
        let read = file.read_at(&mut notes, segment.offset)?;
        if has_go_note(&notes[..read]) {
            return Ok(Some(UnseenReason::Go));
        }
    }
    let is_dynamic = segments.iter().any(|segment| segment.kind == INTERPRETER);
    Ok((!is_dynamic).then_some(UnseenReason::Static))
}

/// The program headers of an ELF file of a little-endian machine; `None` if it is something else.
fn segments(file: &File) -> io::Result<Option<Vec<Segment>>> {
    let mut header = [0; 64];
    if file.read_at(&mut header, 0)? < 52 || !header.starts_with(b"\x7fELF") || header[5] != 1 {
        return Ok(None);
    }
    let number = |bytes: &[u8], at: usize, length: usize| {
        let digits = bytes.get(at..at + length).unwrap_or_default();
        digits.iter().rev().fold(0_u64, |number, digit| number << 8 | u64::from(*digit))
    };
    // Where things are in files for machines of 64 and of 32 bits.
    let (table, size, count, offset, length, word) = match header[4] {
        2 => ((32, 8), 54, 56, 8, 32, 8),
        1 => ((28, 4), 42, 44, 4, 16, 4),
        _ => return Ok(None),
    };
    if !matches!(number(&header, 16, 2), 2 | 3) {
        return Ok(None);
    }
    let (size, count) = (number(&header, size, 2) as usize, number(&header, count, 2) as usize);
    let mut headers = vec![0; (size * count).min(LONGEST)];
    let read = file.read_at(&mut headers, number(&header, table.0, table.1))?;
    let segment = |bytes: &[u8]| Segment {
        kind: number(bytes, 0, 4) as u32,
        offset: number(bytes, offset, word),
        length: number(bytes, length, word),
    };
    Ok(Some(headers[..read].chunks_exact(size.max(1)).map(segment).collect()))
}

/// Whether there is the note of the Go linker with the id of the build.
fn has_go_note(notes: &[u8]) -> bool {
    let mut rest = notes;
    while let Some((header, after)) = rest.split_at_checked(12) {
        let word = |at: usize| {
            let bytes = header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_le_bytes) as usize
        };
        let (name, description, kind) = (word(0), word(4), word(8));
        if kind == 4 && after.get(..name) == Some(b"Go\0\0") {
            return true;
        }
        let padded = |length: usize| length.div_ceil(4).saturating_mul(4);
        rest = after.get(padded(name).saturating_add(padded(description))..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file of 64 bits with such segments.
    fn elf(segments: &[(u32, &[u8])]) -> Vec<u8> {
        let mut file = vec![0; 64 + 56 * segments.len()];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[16] = 2;
        file[32] = 64;
        file[54] = 56;
        file[56] = segments.len() as u8;
        for (place, (kind, bytes)) in segments.iter().enumerate() {
            let (at, end) = (64 + 56 * place, file.len() as u64);
            file[at..at + 4].copy_from_slice(&kind.to_le_bytes());
            file[at + 8..at + 16].copy_from_slice(&end.to_le_bytes());
            file[at + 32..at + 40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            file.extend_from_slice(bytes);
        }
        file
    }

    #[test]
    fn static_and_go_programs_are_told_from_others() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("program");
        let why = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            of_program(&path)
        };
        let interpreter = (INTERPRETER, &b"/lib64/ld-linux-x86-64.so.2\0"[..]);
        let gnu = b"\x04\0\0\0\x04\0\0\0\x03\0\0\0GNU\0abcd";
        let go = b"\x04\0\0\0\x05\0\0\0\x04\0\0\0Go\0\0ident\0\0\0";
        let both = [&gnu[..], go].concat();
        assert_eq!(why(&elf(&[interpreter, (NOTES, gnu)])), None);
        assert_eq!(why(&elf(&[(NOTES, gnu)])), Some(UnseenReason::Static));
        assert_eq!(why(&elf(&[])), Some(UnseenReason::Static));
        assert_eq!(why(&elf(&[(NOTES, &both)])), Some(UnseenReason::Go));
        assert_eq!(why(&elf(&[interpreter, (NOTES, go)])), Some(UnseenReason::Go));
        assert_eq!(why(b"#!/bin/sh\n"), None);
        assert_eq!(why(b"\x7fELF"), None);
        // Damaged ones are nothing to fail on.
        let whole = elf(&[interpreter, (NOTES, &both)]);
        for length in 0..whole.len() {
            why(&whole[..length]);
        }
        assert!(in_path(OsStr::new("sh")).is_some_and(|path| of_program(&path).is_none()));
    }
}
