//! The library under test, and programs that are compiled and run with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use striate_testing::mpi_job::{self, Ended, is_openmpi};
use striate_unmodified::{TestedLibrary, build_library};
use tempfile::TempDir;

/// The library: `STRIATE_MPIIO`, or the one of this tree.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        build_library(&TestedLibrary {
            variable: "STRIATE_MPIIO",
            manifest_directory: env!("CARGO_MANIFEST_DIR"),
            features: "mpi",
            file: "libstriate_mpiio.so",
        })
    })
}

/// The name of a compiler wrapper of this MPI.
pub fn wrapper(name: &str) -> String {
    format!("{name}.{}", if is_openmpi() { "openmpi" } else { "mpich" })
}

/// Compiles one of our programs, once.
pub fn compile(name: &str) -> PathBuf {
    static PLACE: OnceLock<TempDir> = OnceLock::new();
    // Each program is compiled once: a second compilation would replace the file that another test
    // is starting.
    static COMPILED: Mutex<BTreeMap<String, Arc<OnceLock<PathBuf>>>> = Mutex::new(BTreeMap::new());
    let place = PLACE.get_or_init(|| tempfile::tempdir().unwrap());
    let compiled = Arc::clone(COMPILED.lock().unwrap().entry(name.to_owned()).or_default());
    compiled.get_or_init(|| compile_in(place.path(), name)).clone()
}

fn compile_in(place: &Path, name: &str) -> PathBuf {
    let program = place.join(name.replace('.', "-"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let in_c = source.extension().is_some_and(|extension| extension == "c");
    let compiler = wrapper(if in_c { "mpicc" } else { "mpif90" });
    let mut command = Command::new(compiler);
    command.args(["-O1", "-Wall", "-pthread", "-o"]).arg(&program).arg(&source);
    // Modules are left where the compiler runs.
    let output = command.current_dir(place).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Whether a program runs on the door or on the MPI's own implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Door,
    Native,
}

/// A job of a program: ranks, program and arguments, and variables of the ranks.
pub fn start(on: On, ranks: usize, program: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = mpi_job::mpiexec(ranks);
    let library = library().to_str().unwrap();
    let preload = (on == On::Door).then_some(("LD_PRELOAD", library));
    // The launcher itself needs no door.
    for (name, value) in variables.iter().copied().chain(preload) {
        if is_openmpi() {
            command.arg("-x").arg(format!("{name}={value}"));
        } else {
            command.arg("-env").arg(name).arg(value);
        }
    }
    command.arg(program);
    command
}

/// Runs a program with these arguments.
pub fn run(on: On, program: &Path, arguments: &[&Path], variables: &[(&str, &str)]) -> Ended {
    let mut command = start(on, mpi_job::ranks(), program, variables);
    command.args(arguments);
    mpi_job::run(&mut command)
}

/// Runs a program on the door; it must succeed.
pub fn passes(program: &Path, arguments: &[&Path], variables: &[(&str, &str)]) -> String {
    let ended = run(On::Door, program, arguments, variables);
    assert!(ended.success, "{}: {}", program.display(), ended.output);
    ended.output
}
