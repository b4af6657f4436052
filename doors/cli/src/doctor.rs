//! `striate doctor`: which parts are installed on this machine, where, and how to install missing
//! ones.

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use io_uring::IoUring;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use striate_datatype::Bytes;
use striate_store::rados::library_version;

use crate::document::{Document, filesystem};
use crate::fs::local::FileSystemDescription;
use crate::run::directory::RunDirectory;
use crate::run::library;
use crate::run::mpi::{self, Mpi};
use crate::space::free_space;
use crate::{CommandError, terminal};

/// Show which parts are installed on this machine, where, and how to install missing ones
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate doctor
  striate doctor --json

Fails if something is missing that 'striate run' needs. For everything else, the output says what it is used for.")]
pub(crate) struct DoctorArgs {}

/// How it is with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    Ok,
    /// It is missing, or does not work.
    Missing,
}

impl CheckState {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
        }
    }
}

/// Something that was looked for; a row of the JSON document.
#[derive(Debug, Serialize)]
struct Check {
    what: String,
    state: CheckState,
    /// Whether `striate run` cannot do without.
    needed: bool,
    /// Where it is and what it is like, or what is wrong.
    found: String,
    /// What to do, if something is to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    remedy: String,
}

impl Check {
    fn new(
        what: &str,
        state: CheckState,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (found, remedy) = (found.into(), remedy.into());
        Self { what: what.to_owned(), state, needed: false, found, remedy }
    }

    fn ok(what: &str, found: impl Into<String>) -> Self {
        Self::new(what, CheckState::Ok, found, "")
    }

    fn missing(what: &str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(what, CheckState::Missing, found, remedy)
    }

    fn needed(self) -> Self {
        Self { needed: true, ..self }
    }
}

pub(crate) fn run(_args: &DoctorArgs, json: bool) -> Result<(), CommandError> {
    let mut checks = vec![command()];
    checks.extend(preload());
    checks.extend([Mpi::OpenMpi, Mpi::Mpich].map(door));
    checks.extend([fuse(), namespaces(), rings()]);
    checks.extend([here(), temporary(), cache(), descriptors()]);
    checks.extend([librados(), python(), screen()]);
    let well = checks.iter().all(|check| check.state == CheckState::Ok || !check.needed);
    if json {
        Document::new(checks, Vec::new()).print()?;
    } else {
        terminal::print(&text(&checks, terminal::width()))?;
    }
    if well { Ok(()) } else { Err(CommandError::NotWell) }
}

/// What the current directory lies on.
fn here() -> Check {
    const WHAT: &str = "file system here";
    match FileSystemDescription::of(Path::new(".")) {
        Ok(found) => Check::ok(WHAT, found.summary()),
        Err(error) => Check::missing(WHAT, error.to_string(), ""),
    }
}

/// A line for each; what to do stands below, whole, so that it can be pasted.
fn text(checks: &[Check], width: Option<usize>) -> String {
    let widest = checks.iter().map(|check| check.what.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let Check { what, state, found, .. } = check;
        let mark = if check.needed && *state == CheckState::Missing { "!" } else { " " };
        let line = format!("{mark} {:<7}  {what:<widest$}  {found}\n", state.word());
        text.push_str(&terminal::fitted(&line, width));
        if !check.remedy.is_empty() {
            let _ = writeln!(text, "             {}", check.remedy);
        }
    }
    let lacking = checks.iter().filter(|check| check.needed && check.state == CheckState::Missing);
    let lacking = lacking.map(|check| check.what.as_str()).collect::<Vec<_>>();
    let last = match lacking.as_slice() {
        [] => "'striate run' has everything it needs.".to_owned(),
        some => format!("'striate run' cannot work without: {}", some.join(", ")),
    };
    text + &last + "\n"
}

fn command() -> Check {
    let program = env::current_exe().map(|path| path.display().to_string());
    let found = program.unwrap_or_else(|error| format!("its path is unknown: {error}"));
    let mpi = if cfg!(feature = "mpi") { ", with MPI" } else { "" };
    Check::ok("command", format!("{found} ({}{mpi})", env!("CARGO_PKG_VERSION"))).needed()
}

/// The library that is loaded into programs, and whether the loader takes it.
fn preload() -> Vec<Check> {
    let library = match library::find(None) {
        Ok(library) => library,
        Err(error) => {
            let check = Check::missing("preload library", error.to_string(), library::remedy());
            return vec![check.needed()];
        }
    };
    let shown = library.display();
    let own = env!("CARGO_PKG_VERSION");
    let file = match library::version(&library) {
        Some(version) if version == own => Check::ok("preload library", format!("{shown} ({own})")),
        Some(version) => {
            let found = format!("{shown} is of version {version}, this command of {own}");
            Check::missing("preload library", found, library::remedy())
        }
        None => {
            let found = format!("{shown} does not say its version: it is older than this command");
            Check::missing("preload library", found, library::remedy())
        }
    };
    vec![file.needed(), loads(&library).needed()]
}

/// Loads it into a program that does nothing.
fn loads(library: &Path) -> Check {
    let what = "loading it";
    let mut program = Command::new("true");
    program.env(library::VARIABLE, library).env_remove("STRIATE_STACK").stdin(Stdio::null());
    match program.output() {
        Ok(output) if output.status.success() && output.stderr.is_empty() => {
            Check::ok(what, "a program runs with it")
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Check::missing(what, format!("{}: {said}", output.status), library::remedy())
        }
        Err(error) => Check::missing(what, format!("cannot run 'true': {error}"), ""),
    }
}

/// The door for the programs of an MPI, if that is here.
fn door(mpi: Mpi) -> Check {
    let what = format!("MPI-IO door, {}", mpi.name());
    match (mpi::door(mpi, None), mpi::launcher_of(mpi)) {
        (Ok(Some(door)), _) => Check::ok(&what, door.display().to_string()),
        (Err(error), _) => Check::missing(&what, error.to_string(), mpi::remedy(mpi)),
        (Ok(None), Some(launcher)) => {
            let found = format!(
                "{} is installed, but there is no door for its programs",
                launcher.display()
            );
            Check::missing(&what, found, mpi::remedy(mpi))
        }
        (Ok(None), None) => Check::ok(&what, format!("not needed: no {} on PATH", mpi.name())),
    }
}

/// What `striate mount` needs.
fn fuse() -> Check {
    let what = "FUSE, for mounts";
    let device = Path::new("/dev/fuse");
    if let Err(error) = std::fs::File::options().read(true).write(true).open(device) {
        let remedy = "as root: modprobe fuse; in a container, give it --device /dev/fuse";
        return Check::missing(what, format!("{}: {error}", device.display()), remedy);
    }
    let root = rustix::process::geteuid().is_root();
    match mpi::found("fusermount3".as_ref()) {
        Some(path) => Check::ok(what, format!("{} and {}", device.display(), path.display())),
        None if root => {
            Check::ok(what, format!("{}; fusermount3, for other users, is not", device.display()))
        }
        None => Check::missing(what, "fusermount3 is not on PATH", "apt install fuse3"),
    }
}

/// Mounts that only one program and its children see.
fn namespaces() -> Check {
    let what = "private mounts";
    let setting = |name: &str| {
        let text = std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok();
        text.and_then(|text| text.trim().parse::<u64>().ok())
    };
    let root = rustix::process::geteuid().is_root();
    let words: &[&str] =
        if root { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let tried = Command::new("unshare")
        .args(words)
        .arg("true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let kind = if root { "mount namespaces, as root" } else { "user and mount namespaces" };
    match tried {
        Ok(status) if status.success() => Check::ok(what, kind),
        _ if !root && setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1) => {
            let remedy = "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0";
            Check::missing(what, "AppArmor prevents users from creating namespaces", remedy)
        }
        _ if !root && setting("kernel/unprivileged_userns_clone") == Some(0) => {
            let remedy = "as root: sysctl kernel.unprivileged_userns_clone=1";
            Check::missing(what, "users may not create namespaces", remedy)
        }
        _ if !root && setting("user/max_user_namespaces") == Some(0) => {
            let remedy = "as root: sysctl user.max_user_namespaces=1000";
            Check::missing(what, "users may not create namespaces", remedy)
        }
        Ok(_) => Check::missing(what, format!("{kind} are refused"), ""),
        Err(error) => Check::missing(what, format!("cannot try with unshare: {error}"), ""),
    }
}

/// Rings are asked for where many requests are under way; without them it takes more system calls.
fn rings() -> Check {
    let what = "io_uring";
    match IoUring::new(8) {
        Ok(_) => Check::ok(what, "the kernel provides rings"),
        Err(error) => {
            let found = format!("{error}: plain system calls are made instead, which is slower");
            let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
            let remedy = match disabled.as_deref().map(str::trim) {
                Ok("1" | "2") => "as root: sysctl kernel.io_uring_disabled=0",
                _ => "",
            };
            Check::missing(what, found, remedy)
        }
    }
}

/// Where the counters of a run are left while it lasts.
fn temporary() -> Check {
    let what = "temporary files";
    let place = env::temp_dir();
    let check = match RunDirectory::new(None) {
        Ok(_) => Check::ok(what, place_text(&place)),
        Err(error) => Check::missing(what, error.to_string(), "TMPDIR names another directory"),
    };
    check.needed()
}

/// Where probes keep what they measured.
fn cache() -> Check {
    let what = "cache of probes";
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let place = variable("STRIATE_CACHE_DIR").map(PathBuf::from).or_else(|| {
        let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || variable("HOME").map(|home| PathBuf::from(home).join(".cache"));
        cache.or_else(home).map(|path| path.join("striate"))
    });
    let remedy = "STRIATE_CACHE_DIR names another directory";
    let Some(place) = place else {
        return Check::missing(what, "there is no home directory", remedy);
    };
    // It is made when it is needed: until then the nearest directory above it counts.
    let there = place.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    match rustix::fs::access(there, rustix::fs::Access::WRITE_OK) {
        Ok(()) => {
            let new = if there == place { "" } else { ", created when needed" };
            let kind = filesystem(there).unwrap_or_else(|| "unknown file system".into());
            Check::ok(what, format!("{} ({kind}{new})", place.display()))
        }
        Err(error) => Check::missing(what, format!("{}: {error}", place.display()), remedy),
    }
}

fn place_text(place: &Path) -> String {
    let kind = filesystem(place).unwrap_or_else(|| "unknown file system".into());
    let free = free_space(place).map(|free| format!(", {} free", Bytes(free)));
    format!("{} ({kind}{})", place.display(), free.unwrap_or_default())
}

/// Limits that programs inherit.
fn descriptors() -> Check {
    const FEW: u64 = 1024;
    let what = "limits";
    let number = |value: Option<u64>| value.map_or("unlimited".to_owned(), |n| n.to_string());
    let files = getrlimit(Resource::Nofile);
    let size = getrlimit(Resource::Fsize).current;
    let found = format!(
        "{} open files (at most {}), files of {}",
        number(files.current),
        number(files.maximum),
        size.map_or_else(|| "any size".to_owned(), |bytes| format!("{} at most", Bytes(bytes))),
    );
    match (files.current, size) {
        (_, Some(_)) => Check::missing(what, found, "ulimit -f unlimited"),
        (Some(files), _) if files < FEW => Check::missing(what, found, "ulimit -n 1024"),
        _ => Check::ok(what, found),
    }
}

/// For files in pools of Ceph.
fn librados() -> Check {
    let what = "librados";
    match library_version() {
        Ok(version) => Check::ok(what, format!("version {version}, for rados:// URLs")),
        Err(error) => Check::missing(
            what,
            format!("{error}; only files in pools of Ceph need it"),
            "apt-get install librados2",
        ),
    }
}

/// For scripts that read results.
fn python() -> Check {
    let what = "python3";
    match mpi::found(what.as_ref()) {
        Some(path) => {
            let version = mpi::printed(Command::new(&path).arg("--version")).unwrap_or_default();
            let version = version.trim().trim_start_matches("Python ");
            Check::ok(what, format!("{} ({version})", path.display()))
        }
        None => Check::ok(what, "not on PATH; nothing here needs it"),
    }
}

fn screen() -> Check {
    let width = match terminal::width() {
        Some(width) => format!("{width} columns"),
        None => "no width: tables are shown whole".to_owned(),
    };
    let text = if terminal::is_utf8() { "UTF-8" } else { "ASCII" };
    Check::ok("terminal", format!("{width}, {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_and_missing_is_marked_and_can_be_mended() {
        let remedy = format!("cargo build {}", "x".repeat(100));
        let checks = [
            Check::ok("command", "/bin/striate (1)").needed(),
            Check::missing("library", "it is neither here nor there", remedy.clone()).needed(),
            Check::missing("FUSE", "no device", ""),
        ];
        let text = text(&checks, Some(40));
        assert!(text.contains("\n! missing  library"), "{text}");
        assert!(text.contains("\n  missing  FUSE"), "{text}");
        assert!(text.lines().any(|line| line.trim() == remedy), "{text}");
        assert!(text.ends_with("cannot work without: library\n"), "{text}");
    }

    #[test]
    fn a_program_that_is_no_library_is_not_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("no-library.so");
        std::fs::write(&path, "plain text").unwrap();
        let check = loads(&path);
        assert_eq!(check.state, CheckState::Missing);
        assert!(check.found.contains("cannot be preloaded"), "{}", check.found);
    }
}
