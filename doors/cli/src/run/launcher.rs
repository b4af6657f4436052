//! [`Launcher`]: the options by which an MPI launcher passes environment variables to the ranks.
//!
//! The MPI-IO door pulls in the MPI library, so it is for ranks alone: not for the launcher, and
//! not for what else it starts. Launchers have an option for that, which goes right behind their
//! name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Programs that start another one, whose name and options come after their own.
const WRAPPERS: [&str; 12] = [
    "chrt", "env", "ionice", "nice", "nohup", "numactl", "setsid", "stdbuf", "sudo", "taskset",
    "time", "timeout",
];

/// A sort of launchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launcher {
    /// Those of Open MPI and PRRTE: `-x NAME=VALUE`, for the programs up to the next colon.
    OpenMpi,
    /// Hydra and its descendants (MPICH, Intel MPI, MVAPICH): `-genv NAME VALUE`.
    Hydra,
    /// Slurm: `--export=ALL,NAME=VALUE`.
    Slurm,
}

/// What a name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// It is this sort.
    Launcher(Launcher),
    /// It is a launcher; of which sort it has to say itself.
    Unclear,
}

/// What the file name of a program says about it; `None` if it is not a launcher.
pub(super) fn named(program: &OsStr) -> Option<Named> {
    let name = Path::new(program).file_name()?.to_str()?;
    let (base, ending) = name.split_once('.').unwrap_or((name, ""));
    let sort = match (base, ending) {
        ("orterun" | "prterun" | "prun", _) | ("mpiexec" | "mpirun", "openmpi") => {
            Launcher::OpenMpi
        }
        ("mpiexec" | "mpirun", "hydra" | "mpich" | "mpich2") => Launcher::Hydra,
        ("srun", _) => Launcher::Slurm,
        ("mpiexec" | "mpirun", _) => return Some(Named::Unclear),
        _ => return None,
    };
    Some(Named::Launcher(sort))
}

/// The output of `--version` identifies the kind of launcher.
pub(super) fn by_version(text: &str) -> Option<Launcher> {
    let text = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["open mpi", "openrte", "open-mpi", "prrte"]) {
        Some(Launcher::OpenMpi)
    } else if has(&["hydra", "mpich", "intel(r) mpi"]) {
        Some(Launcher::Hydra)
    } else if has(&["slurm"]) {
        Some(Launcher::Slurm)
    } else {
        None
    }
}

/// Where in a command the launcher is: first, or after programs that start another one.
pub(super) fn place(command: &[OsString]) -> Option<usize> {
    let name = |word: &OsString| Path::new(word).file_name().map(OsStr::to_os_string);
    let first = command.first()?;
    if named(first).is_some() {
        return Some(0);
    }
    let wraps = name(first).is_some_and(|name| WRAPPERS.iter().any(|wrapper| name == *wrapper));
    if wraps { command.iter().position(|word| named(word).is_some()) } else { None }
}

impl Launcher {
    /// A command, whose launcher is at this place, with a variable in the environment of all ranks.
    /// If the command itself says something of the variable, the value goes before that.
    pub(super) fn with_variable(
        self,
        command: &[OsString],
        place: usize,
        name: &str,
        value: &OsStr,
    ) -> Vec<OsString> {
        let mut words = command.to_vec();
        let mut places = vec![place + 1];
        if self == Self::OpenMpi {
            // Each group of programs has options of its own.
            let colons = (place + 1..words.len()).filter(|n| words[*n] == ":");
            places.extend(colons.map(|n| n + 1));
        }
        let ends = places.iter().skip(1).copied().chain([words.len()]);
        let groups: Vec<(usize, usize)> = places.iter().copied().zip(ends).collect();
        for (from, until) in groups.into_iter().rev() {
            if !self.put_before(&mut words[from..until], name, value) {
                words.splice(from..from, self.option(name, value));
            }
        }
        words
    }

    fn option(self, name: &str, value: &OsStr) -> Vec<OsString> {
        match self {
            Self::OpenMpi => vec!["-x".into(), joined(&[name.as_ref(), "=".as_ref(), value])],
            Self::Hydra => vec!["-genv".into(), name.into(), value.into()],
            Self::Slurm => {
                vec![joined(&["--export=ALL,".as_ref(), name.as_ref(), "=".as_ref(), value])]
            }
        }
    }

    /// Puts a value before the one that words already have for a variable; whether they have one.
    fn put_before(self, words: &mut [OsString], name: &str, value: &OsStr) -> bool {
        let assigned = format!("{name}=");
        for n in 0..words.len() {
            let word = words[n].as_bytes();
            let before = n.checked_sub(1).map(|before| words[before].clone());
            match (self, before.as_ref().and_then(|word| word.to_str())) {
                (Self::OpenMpi, Some("-x" | "--x")) if word == name.as_bytes() => {
                    words[n] = joined(&[assigned.as_ref(), value]);
                    return true;
                }
                (Self::OpenMpi, Some("-x" | "--x")) if word.starts_with(assigned.as_bytes()) => {
                    let rest = OsStr::from_bytes(&word[assigned.len()..]);
                    words[n] = joined(&[assigned.as_ref(), value, ":".as_ref(), rest]);
                    return true;
                }
                (Self::Hydra, Some("-genv" | "-env")) if word == name.as_bytes() => {
                    let Some(theirs) = words.get(n + 1).cloned() else { return false };
                    words[n + 1] = joined(&[value, ":".as_ref(), &theirs]);
                    return true;
                }
                (Self::Slurm, _) if word.starts_with(b"--export=") => {
                    let said = String::from_utf8_lossy(word).into_owned();
                    words[n] = match said.split_once(&assigned) {
                        Some((head, tail)) => joined(&[
                            head.as_ref(),
                            assigned.as_ref(),
                            value,
                            ":".as_ref(),
                            tail.as_ref(),
                        ]),
                        // Nothing is to be handed on, and nothing is.
                        None if said == "--export=NONE" => return true,
                        None => joined(&[said.as_ref(), ",".as_ref(), assigned.as_ref(), value]),
                    };
                    return true;
                }
                _ => {}
            }
        }
        false
    }
}

fn joined(parts: &[&OsStr]) -> OsString {
    parts.iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    fn with(launcher: Launcher, command: &str) -> String {
        let command = words(command);
        let place = place(&command).unwrap();
        let words = launcher.with_variable(&command, place, "LD_PRELOAD", "/a.so".as_ref());
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn names_tell_launchers() {
        for (name, told) in [
            ("mpiexec.openmpi", Some(Named::Launcher(Launcher::OpenMpi))),
            ("/usr/bin/orterun", Some(Named::Launcher(Launcher::OpenMpi))),
            ("prterun", Some(Named::Launcher(Launcher::OpenMpi))),
            ("/opt/mpich/bin/mpiexec.hydra", Some(Named::Launcher(Launcher::Hydra))),
            ("mpirun.mpich", Some(Named::Launcher(Launcher::Hydra))),
            ("srun", Some(Named::Launcher(Launcher::Slurm))),
            ("mpirun", Some(Named::Unclear)),
            ("./mpiexec", Some(Named::Unclear)),
            ("mpiexec_log", None),
            ("cp", None),
            ("", None),
        ] {
            assert_eq!(named(OsStr::new(name)), told, "{name}");
        }
    }

    #[test]
    fn versions_tell_launchers() {
        for (text, launcher) in [
            ("mpiexec (OpenRTE) 4.1.4\n", Some(Launcher::OpenMpi)),
            ("mpirun (Open MPI) 5.0.3\n", Some(Launcher::OpenMpi)),
            ("prterun (PRRTE) 3.0.5", Some(Launcher::OpenMpi)),
            ("HYDRA build details:\n    Version: 4.0.2\n", Some(Launcher::Hydra)),
            ("Intel(R) MPI Library for Linux* OS, Version 2021.9", Some(Launcher::Hydra)),
            ("slurm-wlm 22.05.8", Some(Launcher::Slurm)),
            ("something else", None),
        ] {
            assert_eq!(by_version(text), launcher, "{text}");
        }
    }

    #[test]
    fn launchers_are_found_behind_programs_that_start_others() {
        for (command, found) in [
            ("mpiexec -n 2 ./a", Some(0)),
            ("timeout 60 mpirun -n 2 ./a", Some(2)),
            ("/usr/bin/env A=1 nice mpiexec ./a", Some(3)),
            ("echo mpiexec", None),
            ("nice ./a", None),
        ] {
            assert_eq!(place(&words(command)), found, "{command}");
        }
    }

    #[test]
    fn ranks_get_the_variable() {
        let open_mpi = |command| with(Launcher::OpenMpi, command);
        assert_eq!(open_mpi("mpiexec -n 2 ./a"), "mpiexec -x LD_PRELOAD=/a.so -n 2 ./a");
        assert_eq!(
            open_mpi("timeout 9 mpiexec ./a : -n 2 ./b"),
            "timeout 9 mpiexec -x LD_PRELOAD=/a.so ./a : -x LD_PRELOAD=/a.so -n 2 ./b"
        );
        assert_eq!(
            open_mpi("mpiexec -x LD_PRELOAD=/b.so ./a : -x LD_PRELOAD ./b"),
            "mpiexec -x LD_PRELOAD=/a.so:/b.so ./a : -x LD_PRELOAD=/a.so ./b"
        );
        let hydra = |command| with(Launcher::Hydra, command);
        assert_eq!(
            hydra("mpiexec -n 2 ./a : ./b"),
            "mpiexec -genv LD_PRELOAD /a.so -n 2 ./a : ./b"
        );
        assert_eq!(
            hydra("mpiexec -genv LD_PRELOAD /b.so ./a"),
            "mpiexec -genv LD_PRELOAD /a.so:/b.so ./a"
        );
        let slurm = |command| with(Launcher::Slurm, command);
        assert_eq!(slurm("srun -n 2 ./a"), "srun --export=ALL,LD_PRELOAD=/a.so -n 2 ./a");
        assert_eq!(slurm("srun --export=A=1 ./a"), "srun --export=A=1,LD_PRELOAD=/a.so ./a");
        assert_eq!(
            slurm("srun --export=LD_PRELOAD=/b.so,A ./a"),
            "srun --export=LD_PRELOAD=/a.so:/b.so,A ./a"
        );
        assert_eq!(slurm("srun --export=NONE ./a"), "srun --export=NONE ./a");
    }
}
