//! The places of the command's libraries: cargo's target directory, an install prefix, the
//! directories of packages.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

use crate::shell::{CargoPlace, quoted, quoted_path};

/// The directories, in the order in which they are looked into.
pub(crate) fn directories(program: &Path) -> Vec<PathBuf> {
    let program = program.canonicalize().unwrap_or_else(|_| program.to_path_buf());
    let beside = program.parent().unwrap_or(Path::new(".")).to_path_buf();
    // Cargo's own copies are a level deeper, and so are programs of tests.
    let mut directories = vec![beside.clone(), beside.join("deps")];
    let Some(prefix) = beside.parent() else { return directories };
    if beside.ends_with("deps") {
        directories.push(prefix.to_path_buf());
    }
    // Debian's name for the directory of an architecture.
    let multiarch = format!("lib/{ARCH}-linux-gnu");
    for lib in ["lib", "lib64", multiarch.as_str()] {
        directories.push(prefix.join(lib).join("striate"));
        directories.push(prefix.join(lib));
    }
    directories.push(prefix.join("libexec/striate"));
    directories
}

/// The workspace that this program was built from, if it is still there.
fn source() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.parent()?;
    workspace.join("Cargo.toml").is_file().then(|| workspace.to_path_buf())
}

/// A library that belongs to this program, and how cargo builds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library<'a> {
    pub(crate) package: &'a str,
    /// The file as it is built, and as it is installed.
    pub(crate) built: &'a str,
    pub(crate) installed: &'a str,
    /// The MPI it is built for: the word for its directory, and its compiler.
    pub(crate) mpi: Option<(&'a str, &'a str)>,
}

impl Library<'_> {
    /// The command that builds it and puts it where [`directories`] finds it for `program`. It can
    /// be pasted into a shell in any directory, as long as the source is where it was.
    pub(crate) fn command(&self, program: &Path) -> String {
        let source = source();
        let program = program.canonicalize().unwrap_or_else(|_| program.to_path_buf());
        let place = CargoPlace::of(&program);
        let mut words = Vec::new();
        words.extend(self.mpi.map(|(_, compiler)| format!("MPICC={}", quoted(compiler))));
        words.extend(["cargo", "build"].map(str::to_owned));
        let release = || vec!["--release".to_owned()];
        let flags = place.as_ref().map_or_else(release, CargoPlace::flags);
        words.extend(flags.iter().map(|flag| quoted(flag)));
        words.extend(["-p", self.package].map(str::to_owned));
        if self.mpi.is_some() {
            words.extend(["--features", "mpi"].map(str::to_owned));
        }
        if let Some(source) = &source {
            words.extend(["--manifest-path".into(), quoted_path(&source.join("Cargo.toml"))]);
        }
        let default = source.map_or_else(|| PathBuf::from("target"), |path| path.join("target"));
        let target = place.as_ref().map_or(default, |place| place.target.clone());
        // Those for several MPIs have one name.
        let target = self.mpi.map_or_else(|| target.clone(), |(word, _)| target.join(word));
        words.extend(["--target-dir".into(), quoted_path(&target)]);
        let build = words.join(" ");
        if place.is_some() {
            return build;
        }
        // The program was installed: so is this, into the directory for libraries of its prefix, or
        // beside it.
        let beside = program.parent().unwrap_or(Path::new("."));
        let directory = match beside.parent() {
            Some(prefix) if beside.ends_with("bin") => prefix.join("lib/striate"),
            _ => beside.to_path_buf(),
        };
        let built = quoted_path(&target.join("release").join(self.built));
        let installed = quoted_path(&directory.join(self.installed));
        format!("{build} && install -D {built} {installed}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_looked_for_in_every_layout() {
        let places = directories(Path::new("/nowhere/bin/striate"));
        assert_eq!(places[0], Path::new("/nowhere/bin"));
        for place in ["lib/striate", "lib", "lib64/striate", "libexec/striate"] {
            assert!(places.contains(&Path::new("/nowhere").join(place)), "{place}");
        }
        let multiarch = format!("/nowhere/lib/{ARCH}-linux-gnu/striate");
        assert!(places.contains(&PathBuf::from(multiarch)), "{places:?}");
        let places = directories(Path::new("/nowhere/debug/deps/striate-1"));
        assert!(places.contains(&PathBuf::from("/nowhere/debug")), "{places:?}");
    }

    #[test]
    fn the_command_puts_the_library_where_it_is_looked_for() {
        let plain = Library { package: "p", built: "lib.so", installed: "lib.so", mpi: None };
        let text = plain.command(Path::new("/nowhere/bin/striate"));
        assert!(text.starts_with("cargo build --release -p p "), "{text}");
        assert!(text.ends_with("/target/release/lib.so /nowhere/lib/striate/lib.so"), "{text}");
        let text = plain.command(Path::new("/nowhere/tools/striate"));
        assert!(text.ends_with(" /nowhere/tools/lib.so"), "{text}");
        let door = Library { installed: "lib_mpich.so", mpi: Some(("mpich", "mpicc")), ..plain };
        let text = door.command(Path::new("/nowhere/bin/striate"));
        assert!(
            text.starts_with("MPICC=mpicc cargo build --release -p p --features mpi "),
            "{text}"
        );
        let tail = "/target/mpich/release/lib.so /nowhere/lib/striate/lib_mpich.so";
        assert!(text.ends_with(tail), "{text}");
    }
}
