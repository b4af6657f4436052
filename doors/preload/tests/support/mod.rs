//! Programs in C, run with the library loaded and without it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use striate_stack::classification::Meaning;
use striate_stages as stages;
use striate_unmodified::{TestedLibrary, build_library};
use tempfile::TempDir;

/// The library to preload: `STRIATE_PRELOAD`, or the one of this tree.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        build_library(&TestedLibrary {
            variable: "STRIATE_PRELOAD",
            manifest_directory: env!("CARGO_MANIFEST_DIR"),
            features: "",
            file: "libstriate_preload.so",
        })
    })
}

/// A place of sources.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Compiles a program. Further arguments go to the compiler.
pub(crate) fn compile(name: &str, into: &Path, further: &[&str]) -> PathBuf {
    let program = into.join(name.replace('.', "-"));
    let mut command = Command::new("cc");
    command.args(["-O2", "-pthread", "-Wno-unused-result", "-Wno-nonnull", "-o"]).arg(&program);
    let output = command.arg(source(name)).args(further).args(["-lrt", "-ldl"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// What a program leaves: how it ended, what it printed, and the files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) status: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) printed: String,
    pub(crate) complained: String,
    pub(crate) files: BTreeMap<PathBuf, Vec<u8>>,
}

/// Runs a program in an empty directory; with the library if a configuration is given.
pub(crate) fn run(
    program: &Path,
    arguments: &[&str],
    stack: Option<&str>,
    beside: &[&Path],
) -> Left {
    let place = TempDir::new().unwrap();
    let work = place.path().join("work");
    fs::create_dir(&work).unwrap();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60"]);
    let mut libraries: Vec<String> =
        beside.iter().map(|library| library.display().to_string()).collect();
    let mut variables = Vec::new();
    if let Some(stack) = stack {
        let file = place.path().join("stack.toml");
        fs::write(&file, stack.replace("WORK", work.to_str().unwrap())).unwrap();
        libraries.push(library().display().to_string());
        variables.push(format!("STRIATE_STACK={}", file.display()));
        // What stages report goes there, not among what the program prints.
        let reports = place.path().join("reports");
        fs::create_dir(&reports).unwrap();
        variables.push(format!("STRIATE_RUN_DIR={}", reports.display()));
    }
    command.args(["env", &format!("LD_PRELOAD={}", libraries.join(":"))]);
    command.args(variables);
    let output =
        command.arg(program).args(arguments).current_dir(&work).output().expect("timeout is there");
    let mut files = BTreeMap::new();
    collect(&work, &work, &mut files);
    Left {
        status: output.status.code(),
        signal: output.status.signal(),
        printed: String::from_utf8_lossy(&output.stdout).into_owned(),
        complained: String::from_utf8_lossy(&output.stderr).into_owned(),
        files,
    }
}

fn collect(root: &Path, directory: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_path_buf();
        if path.is_dir() && !path.is_symlink() {
            collect(root, &path, files);
        } else {
            files.insert(name, fs::read(&path).unwrap_or_default());
        }
    }
}

/// A stack of one sort of stage for the files of the test.
pub(crate) fn stack_of(kind: &str) -> String {
    format!("[paths]\ninclude = [\"WORK\"]\n[[stage]]\nkind = \"{kind}\"\n")
}

/// Stacks that must not be noticed: of each sort that needs no options and keeps the meaning of
/// files.
pub(crate) fn stacks() -> Vec<String> {
    let harmless = |kind: &&str| {
        let stack = striate_stages::parse_stack(&stack_of(kind).replace("WORK", "/w"))
            .and_then(|configuration| configuration.build());
        stack.is_ok_and(|stack| stack.stages()[0].stage.classification().meaning == Meaning::Kept)
    };
    stages::STAGE_TABLE.types.iter().map(|sort| sort.name).filter(harmless).map(stack_of).collect()
}

/// The program leaves the same with each stack as without.
pub(crate) fn unnoticed(name: &str, arguments: &[&str], further: &[&str]) {
    let place = TempDir::new().unwrap();
    let program = compile(name, place.path(), further);
    let without = run(&program, arguments, None, &[]);
    for stack in stacks() {
        let with = run(&program, arguments, Some(&stack), &[]);
        compare(&format!("{name} {arguments:?} with {stack}"), &with, &without);
    }
}

/// Says where two differ.
pub(crate) fn compare(what: &str, with: &Left, without: &Left) {
    for (with, without) in with.printed.lines().zip(without.printed.lines()) {
        assert_eq!(with, without, "{what}");
    }
    let names = |left: &Left| left.files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(with), names(without), "{what}");
    for (name, bytes) in &with.files {
        let expected = &without.files[name];
        let same = bytes.iter().zip(expected).take_while(|(a, b)| a == b).count();
        assert!(
            bytes == expected,
            "{what}: {}: {} bytes, not {}; the first {same} are the same",
            name.display(),
            bytes.len(),
            expected.len()
        );
    }
    let rest = |left: &Left| (left.status, left.signal, left.complained.clone());
    assert_eq!(rest(with), rest(without), "{what}");
    assert_eq!(with.printed, without.printed, "{what}");
}
