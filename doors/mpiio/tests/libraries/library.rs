//! A program of an I/O library: compiled for this MPI, run with the door and without, and its files
//! compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use striate_testing::mpi_job;
use tempfile::TempDir;

use crate::door::{On, start, wrapper};

/// A program that uses an I/O library.
pub(crate) struct Library {
    program: PathBuf,
}

/// What of a file must be the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Bytes,
    /// What the tools say of it.
    Meaning,
}

fn output(command: &mut Command) -> String {
    let name = command.get_program().to_os_string();
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{} is needed: {error}", name.display()));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

impl Library {
    /// Compiles a program with what `pkg-config` says of the library; `headers` lie below the
    /// directory of libraries, where Debian puts those of one build among several.
    pub(crate) fn compiled(name: &str, package: &str, headers: Option<&str>) -> Self {
        static PLACE: OnceLock<TempDir> = OnceLock::new();
        let place = PLACE.get_or_init(|| tempfile::tempdir().unwrap());
        // Tests of one library run beside each other: each compiles for itself.
        let directory = tempfile::tempdir_in(place.path()).unwrap().keep();
        let program = directory.join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/libraries");
        let mut compiler = Command::new(wrapper("mpicc"));
        compiler.args(["-O1", "-Wall", "-Werror"]);
        if let Some(headers) = headers {
            let libraries = output(Command::new("pkg-config").args(["--variable=libdir", package]));
            compiler.arg("-I").arg(Path::new(libraries.trim()).join(headers));
        }
        compiler.arg(source.join(name).with_extension("c")).arg("-o").arg(&program);
        let flags = output(Command::new("pkg-config").args(["--cflags", "--libs", package]));
        compiler.args(flags.split_whitespace());
        output(&mut compiler);
        Self { program }
    }

    /// Runs the program on so many ranks; it must succeed.
    fn run(&self, on: On, ranks: usize, action: &str, file: &Path, more: &[&str], engine: &str) {
        let mut command = start(on, ranks, &self.program, &[("OMPI_MCA_io", engine)]);
        command.arg(action).arg(file).args(more);
        let ended = mpi_job::run(&mut command);
        assert!(ended.success, "{action} {on:?} {engine}: {}", ended.output);
    }
}

/// The MPI's own implementations that a file is compared with.
fn engines() -> &'static [&'static str] {
    if mpi_job::is_openmpi() { &["ompio", "romio321"] } else { &["romio"] }
}

/// Writes a file with the door and without, has each read the file of the other, and compares the
/// files and what serial tools say of them.
pub(crate) fn all_ways(
    library: &Library,
    write: &str,
    more: &[&str],
    kept: Kept,
    tools: &[&[&str]],
) {
    let place = tempfile::tempdir().unwrap();
    let file = |who: &str| {
        fs::create_dir_all(place.path().join(who)).unwrap();
        // Tools tell the name, which is therefore the same.
        place.path().join(who).join("data")
    };
    let (ours, ranks) = (file("door"), mpi_job::ranks());
    library.run(On::Door, ranks, write, &ours, more, engines()[0]);
    library.run(On::Door, ranks, "read", &ours, more, engines()[0]);
    for engine in engines() {
        let theirs = file(engine);
        library.run(On::Native, ranks, write, &theirs, more, engine);
        library.run(On::Door, ranks, "read", &theirs, more, engine);
        library.run(On::Native, ranks, "read", &ours, more, engine);
        if kept == Kept::Bytes {
            same_bytes(&fs::read(&ours).unwrap(), &fs::read(&theirs).unwrap(), engine);
        }
        for tool in tools {
            let told = |file: &Path| {
                let directory = file.parent().unwrap();
                output(Command::new(tool[0]).args(&tool[1..]).arg("data").current_dir(directory))
            };
            assert!(told(&ours) == told(&theirs), "{tool:?} tells them apart, {engine}");
        }
    }
}

/// Files that all ranks wrote through the door are read by so many.
pub(crate) fn read_by(library: &Library, ranks: usize) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("data");
    library.run(On::Door, mpi_job::ranks(), "write", &file, &[], engines()[0]);
    library.run(On::Door, ranks, "read", &file, &[], engines()[0]);
}

fn same_bytes(ours: &[u8], theirs: &[u8], engine: &str) {
    let first = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs);
    assert!(first.is_none(), "byte {} differs from that of {engine}", first.unwrap_or_default());
    assert_eq!(ours.len(), theirs.len(), "the length differs from that of {engine}");
}
