//! [`Victim`]: a command that is killed before each of the system calls by which it changes
//! something.
//!
//! It is run once with `strace` to learn which calls those are, and then once for each of them
//! ([`Victim::points`]) with a kill in the place of the call. Of a call that is made very often
//! only some are tried: `STRIATE_KILLS` of each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Calls that change files or names.
const CALLS: &str = "openat,open,creat,write,pwrite64,writev,pwritev,rename,renameat,renameat2,unlink,unlinkat,\
                     ftruncate,truncate,fsync,fdatasync,fallocate,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,\
                     fchmod,chmod,fchmodat,utimensat,copy_file_range,sendfile,setxattr,fsetxattr";

/// How many of each call are tried, if `STRIATE_KILLS` does not say.
const SOME: usize = 12;

/// A command that is to be killed.
#[derive(Debug)]
pub struct Victim {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables for it, and not for the tracer.
    pub variables: Vec<(String, String)>,
    /// Where it works.
    pub directory: PathBuf,
}

/// Where it is killed: before a thread makes a call for the `nth` time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// The call.
    pub call: String,
    /// Which of them.
    pub nth: usize,
}

impl Victim {
    fn watched(&self, options: &[&str]) -> Command {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq"]).args(options).current_dir(&self.directory);
        for (name, value) in &self.variables {
            command.arg("-E").arg(format!("{name}={value}"));
        }
        command.args(&self.words);
        command
    }

    /// Runs it to its end, and returns where it changes something: evenly spread over those of each
    /// call.
    pub fn points(&self) -> Vec<Point> {
        let told = tempfile::NamedTempFile::new().unwrap();
        let (calls, file) = (format!("trace={CALLS}"), told.path().to_str().unwrap().to_owned());
        let output = self.watched(&["-o", &file, "-e", &calls]).output().expect("strace");
        assert!(output.status.success(), "{:?}: {output:?}", self.words);
        let text = std::fs::read_to_string(told.path()).unwrap();
        let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for line in text.lines() {
            let Some((thread, rest)) = line.split_once(' ') else { continue };
            let Some((call, arguments)) = rest.trim_start().split_once('(') else { continue };
            if call.contains(' ') || call.contains('<') {
                continue;
            }
            let nth = seen.entry((thread.to_owned(), call.to_owned())).or_default();
            *nth += 1;
            if changes(call, arguments) {
                let places = found.entry(call.to_owned()).or_default();
                if !places.contains(nth) {
                    places.push(*nth);
                }
            }
        }
        let some = std::env::var("STRIATE_KILLS").ok().map_or(SOME, |text| text.parse().unwrap());
        let mut points = Vec::new();
        for (call, mut places) in found {
            places.sort_unstable();
            let count = places.len().min(some);
            for at in 0..count {
                let place = if count > 1 { at * (places.len() - 1) / (count - 1) } else { 0 };
                points.push(Point { call: call.clone(), nth: places[place] });
            }
        }
        assert!(!points.is_empty(), "{:?} changes nothing", self.words);
        points
    }

    /// Runs it, and kills it there. `None` if it does not come there, as threads may do otherwise
    /// each time.
    pub fn killed_at(&self, point: &Point) -> Option<Output> {
        let Point { call, nth } = point;
        let (trace, kill) =
            (format!("trace={call}"), format!("inject={call}:signal=KILL:when={nth}"));
        let options = ["-o", "/dev/null", "-e", &trace, "-e", &kill];
        let output = self.watched(&options).output().expect("strace");
        (!output.status.success()).then_some(output)
    }
}

/// Whether a call changes something other than what the command prints.
fn changes(call: &str, arguments: &str) -> bool {
    match call {
        "openat" | "open" => {
            ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| arguments.contains(flag))
                && !arguments.contains("\"/dev/")
                && !arguments.contains("\"/proc/")
        }
        "write" | "writev" => !["0,", "1,", "2,"].iter().any(|own| arguments.starts_with(own)),
        _ => true,
    }
}
