//! [`Mpi`]: which MPI a program or a launcher belongs to, and where the MPI-IO door for it is.
//!
//! The libraries that a program is linked with decide it; of a script, which has none, the launcher
//! does. A library that was built for another MPI refuses to be loaded, so none is better than a
//! wrong one.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::launcher::{self, Launcher, Named};
use super::layout::{self, Library};
use super::library::for_the_loader;
use crate::CommandError;

/// The variable that names it explicitly.
const OURS: &str = "STRIATE_MPIIO";
/// The door as it is built; where several are installed, the name of the MPI is in theirs.
const NAME: &str = "libstriate_mpiio";
/// How long a program may take to say what it is.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of what it says.
const MOST_SAID: u64 = 1 << 20;

/// An implementation of MPI, as far as programs for one do not run with the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mpi {
    /// Open MPI.
    OpenMpi,
    /// MPICH and what shares its binary interface.
    Mpich,
}

impl Mpi {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
        }
    }

    /// How directories and files of it are called.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
        }
    }

    /// That of a list of libraries, as `ldd` prints it.
    fn in_list(list: &str) -> Option<Self> {
        list.lines().find_map(|line| {
            let name = line.split_whitespace().next()?.rsplit('/').next()?;
            match name.split_once(".so")? {
                ("libmpi", version) if version.starts_with(".12") => Some(Self::Mpich),
                ("libmpi", _) => Some(Self::OpenMpi),
                ("libmpich", _) => Some(Self::Mpich),
                _ => None,
            }
        })
    }
}

impl Launcher {
    /// The MPI that it belongs to, if there is but one.
    const fn mpi(self) -> Option<Mpi> {
        match self {
            Self::OpenMpi => Some(Mpi::OpenMpi),
            Self::Hydra => Some(Mpi::Mpich),
            Self::Slurm => None,
        }
    }
}

/// What is known of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MpiJob {
    /// Where in the command its launcher is, and which; without one the program is a rank of its
    /// own, or its launcher is not known.
    pub(super) launcher: Option<(usize, Launcher)>,
    /// The MPI of its ranks, if it could be determined.
    pub(super) mpi: Option<Mpi>,
}

impl MpiJob {
    /// What a command is; `None` if it has nothing to do with MPI.
    pub(super) fn of(command: &[OsString]) -> Option<Self> {
        let Some(place) = launcher::place(command) else {
            let mpi = linked_with(command.first()?)?;
            return Some(Self { launcher: None, mpi: Some(mpi) });
        };
        let Some(launcher) = recognised(&command[place]) else {
            return Some(Self { launcher: None, mpi: None });
        };
        let linked = command[place + 1..].iter().find_map(|word| linked_with(word));
        Some(Self { launcher: Some((place, launcher)), mpi: linked.or(launcher.mpi()) })
    }
}

/// The sort of a launcher, by its name, by the name of what it is a link to, or by what it says.
fn recognised(word: &OsStr) -> Option<Launcher> {
    let mut named = launcher::named(word);
    let path = found(word);
    if let Some(path) = path.as_ref().and_then(|path| path.canonicalize().ok())
        && named == Some(Named::Unclear)
    {
        named = launcher::named(path.as_os_str()).or(named);
    }
    match named? {
        Named::Launcher(launcher) => Some(launcher),
        Named::Unclear => {
            let text = printed(Command::new(path?).arg("--version"))?;
            launcher::by_version(&text)
        }
    }
}

/// The MPI that a word of a command is linked with, if it is a program that is.
fn linked_with(word: &OsStr) -> Option<Mpi> {
    let path = found(word)?;
    let mut magic = [0; 4];
    File::open(&path).ok()?.read_exact(&mut magic).ok()?;
    if magic == *b"\x7fELF" { linked(&path) } else { None }
}

/// The MPI that a program or library is linked with.
fn linked(path: &Path) -> Option<Mpi> {
    Mpi::in_list(&printed(Command::new("ldd").arg(path))?)
}

/// The file that a shell would run for a word.
pub(crate) fn found(word: &OsStr) -> Option<PathBuf> {
    let runs = |path: &PathBuf| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if word.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(word)).filter(runs);
    }
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths).map(|place| place.join(word)).find(runs)
}

/// What a command prints, unless it takes too long.
pub(crate) fn printed(command: &mut Command) -> Option<String> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let texts = [
        child.stdout.take().map(|from| read(Box::new(from))),
        child.stderr.take().map(|from| read(Box::new(from))),
    ];
    let start = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(None) if start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(Some(_)) => break true,
            _ => break false,
        }
    };
    if !ended {
        let _ = child.kill();
        let _ = child.wait();
        return None;
    }
    let texts = texts.into_iter().flatten().filter_map(|text| text.join().ok());
    Some(texts.collect())
}

/// Reads in a thread of its own, so that a full pipe does not block the program.
fn read(from: Box<dyn Read + Send>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.take(MOST_SAID).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The door that people say, here or in the environment.
pub(super) fn said(here: Option<&Path>) -> Result<Option<PathBuf>, CommandError> {
    let in_environment = || env::var_os(OURS).filter(|path| !path.is_empty()).map(PathBuf::from);
    let Some(path) = here.map(Path::to_path_buf).or_else(in_environment) else { return Ok(None) };
    let found = path.canonicalize().ok().filter(|path| path.is_file());
    let Some(found) = found else {
        let place = path.display().to_string();
        let hint = "--mpiio or STRIATE_MPIIO names the file, --no-mpiio runs without it";
        return Err(CommandError::failed("the MPI-IO door is missing", place, hint));
    };
    for_the_loader(found, OURS).map(Some)
}

/// The door for an MPI: the one that people say, or one that is found.
pub(crate) fn door(mpi: Mpi, here: Option<&Path>) -> Result<Option<PathBuf>, CommandError> {
    if let Some(door) = said(here)? {
        return Ok(Some(door));
    }
    for place in candidates(&env::current_exe().unwrap_or_default(), mpi) {
        if let Ok(found) = place.path.canonicalize()
            && found.is_file()
            && (place.certain || linked(&found) == Some(mpi))
        {
            return for_the_loader(found, OURS).map(Some);
        }
    }
    Ok(None)
}

/// Where a door may be, and whether it is certain for which MPI it would be.
#[derive(Debug, PartialEq, Eq)]
struct LibraryCandidate {
    path: PathBuf,
    certain: bool,
}

fn candidates(program: &Path, mpi: Mpi) -> Vec<LibraryCandidate> {
    let program = program.canonicalize().unwrap_or_else(|_| program.to_path_buf());
    let beside = program.parent().unwrap_or(Path::new("."));
    let (named, plain) = (format!("{NAME}_{}.so", mpi.word()), format!("{NAME}.so"));
    let mut places: Vec<LibraryCandidate> = layout::directories(&program)
        .into_iter()
        .map(|directory| LibraryCandidate { path: directory.join(&named), certain: true })
        .collect();
    places.push(LibraryCandidate { path: beside.join(&plain), certain: false });
    // Where it is built: a target directory for each MPI, within or beside that of this program.
    if let (Some(profile), Some(target)) = (beside.file_name(), beside.parent()) {
        for within in [Some(target), target.parent()].into_iter().flatten() {
            let path = within.join(mpi.word()).join(profile).join(&plain);
            places.push(LibraryCandidate { path, certain: true });
        }
    }
    places
}

/// The program that starts ranks of an MPI on this machine, if there is one.
pub(crate) fn launcher_of(mpi: Mpi) -> Option<PathBuf> {
    let names = ["mpiexec", "mpirun"].map(|name| format!("{name}.{}", mpi.word()));
    let plain = ["mpiexec", "mpirun"].map(str::to_owned);
    let is_of = |name: &OsStr| recognised(name).and_then(Launcher::mpi) == Some(mpi);
    let names = names.into_iter().chain(plain).map(OsString::from);
    names.into_iter().filter(|name| is_of(name)).find_map(|name| found(&name))
}

/// What makes the door for an MPI, as a command to paste.
pub(crate) fn remedy(mpi: Mpi) -> String {
    let named = format!("mpicc.{}", mpi.word());
    let compiler = if found(named.as_ref()).is_some() { named.as_str() } else { "mpicc" };
    let (built, installed) = (format!("{NAME}.so"), format!("{NAME}_{}.so", mpi.word()));
    let library = Library {
        package: "striate-mpiio",
        built: &built,
        installed: &installed,
        mpi: Some((mpi.word(), compiler)),
    };
    library.command(&env::current_exe().unwrap_or_default())
}

/// What is said when there is no door.
pub(super) fn without(mpi: Option<Mpi>) -> String {
    let reason = match mpi {
        Some(mpi) => {
            let file = format!("{NAME}_{}.so", mpi.word());
            format!("there is no MPI-IO door for {} ({file}, or STRIATE_MPIIO)", mpi.name())
        }
        None => "the MPI of the ranks cannot be determined".to_owned(),
    };
    format!(
        "striate: {reason}: MPI-IO is left to the MPI library, and only its calls on files are seen"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_tell_the_mpi() {
        for (list, mpi) in [
            ("\tlibmpi.so.40 => /lib/libmpi.so.40 (0x1)\n", Some(Mpi::OpenMpi)),
            ("\tlibm.so.6 => /l (0x1)\n\tlibmpich.so.12 => /lib/m (0x1)\n", Some(Mpi::Mpich)),
            ("\tlibmpi.so.12 => not found\n", Some(Mpi::Mpich)),
            ("\tlibmpi_cxx.so.40 => /a\n\tlibc.so.6 => /b\n", None),
            ("\tnot a dynamic executable\n", None),
        ] {
            assert_eq!(Mpi::in_list(list), mpi, "{list}");
        }
    }

    #[test]
    fn doors_are_looked_for_beside_the_program_and_where_they_are_built() {
        let places = candidates(Path::new("/nowhere/target/debug/striate"), Mpi::Mpich);
        let has = |path: &str, certain| {
            places.contains(&LibraryCandidate { path: PathBuf::from(path), certain })
        };
        assert!(has("/nowhere/target/debug/libstriate_mpiio_mpich.so", true), "{places:?}");
        assert!(has("/nowhere/target/debug/libstriate_mpiio.so", false), "{places:?}");
        assert!(has("/nowhere/target/mpich/debug/libstriate_mpiio.so", true), "{places:?}");
        let places = candidates(Path::new("/nowhere/target/openmpi/debug/striate"), Mpi::Mpich);
        let beside = Path::new("/nowhere/target/mpich/debug/libstriate_mpiio.so");
        assert!(places.iter().any(|place| place.path == beside), "{places:?}");
    }

    #[test]
    fn commands_without_mpi_are_none_of_ours() {
        let command =
            |words: &[&str]| MpiJob::of(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(command(&["sh", "-c", "true"]), None);
        assert_eq!(command(&["no-such-program"]), None);
        assert_eq!(command(&[]), None);
        // Nothing says which MPI it is.
        let job = command(&["srun", "-n", "2", "sh"]).unwrap();
        assert_eq!(job, MpiJob { launcher: Some((0, Launcher::Slurm)), mpi: None });
    }

    #[test]
    fn what_says_nothing_is_not_waited_for() {
        let text = printed(Command::new("sh").args(["-c", "echo one; echo two >&2"])).unwrap();
        assert_eq!(text, "one\ntwo\n");
        assert_eq!(printed(&mut Command::new("/no/such/program")), None);
    }
}
