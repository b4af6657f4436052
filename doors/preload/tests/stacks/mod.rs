//! Programs under stacks: the same thing is done without Striate and with each stack, in a
//! directory of the same name, and must come out alike.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub use striate_unmodified::{Ended, Image, LONGEST, STACKS, Stack, run};
use striate_unmodified::{TestedLibrary, build_library};

/// The library to preload: `STRIATE_PRELOAD`, or the one of this tree.
pub fn library() -> &'static Path {
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

/// Where a program works: a directory that stages see, with a place beside it that they do not.
#[derive(Debug)]
pub struct Workspace {
    seen: tempfile::TempDir,
    beside: tempfile::TempDir,
}

impl Workspace {
    /// A place in memory, if there is a file system for that: programs here sync a lot.
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let named = |root: &Path| tempfile::Builder::new().prefix("striate-test-").tempdir_in(root);
        Self { seen: named(&root).unwrap(), beside: named(&std::env::temp_dir()).unwrap() }
    }

    /// What stages see.
    pub fn seen(&self) -> &Path {
        self.seen.path()
    }

    /// Where the program works, below what stages see.
    pub fn work(&self) -> PathBuf {
        self.seen().join("work")
    }

    /// Where what is needed but not looked at lies.
    pub fn beside(&self) -> &Path {
        self.beside.path()
    }

    /// Empties it, but for what lies beside.
    pub fn renew(&self) {
        let [fast, kept] = ["fast", "kept"].map(|name| self.beside().join(name));
        for directory in [self.work(), self.seen().join("tmp"), fast, kept] {
            if directory.exists() {
                fs::remove_dir_all(&directory).unwrap();
            }
            fs::create_dir(&directory).unwrap();
        }
    }

    /// Makes files of what programs have left in containers.
    pub fn unpack(&self) {
        use striate_stages::recover::{RecoveryMode, unpack};
        let kept = self.beside().join("kept");
        let report = unpack(&kept, None, RecoveryMode::Finish).unwrap();
        assert_eq!(report.failures(), 0, "{report}");
        assert_eq!(fs::read_dir(kept).unwrap().count(), 0, "{report}");
    }

    /// A program in its place, under a stack.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>, stack: &Stack) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.work())
            .env("TMPDIR", self.seen().join("tmp"))
            .env("HOME", self.beside())
            .env("LC_ALL", "C")
            .env_remove("STRIATE_STACK");
        if let Some(text) = stack.text(self.seen(), self.beside()) {
            let (file, run) = (self.beside().join("stack.toml"), self.beside().join("run"));
            // A stack that cannot be built would be no stack at all, and everything the same.
            striate_stages::parse_stack(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", stack.name));
            // A program that was started before may be reading it.
            if fs::read_to_string(&file).ok().as_ref() != Some(&text) {
                fs::write(&file, text).unwrap();
            }
            fs::create_dir_all(&run).unwrap();
            command.env("STRIATE_STACK", file).env("STRIATE_RUN_DIR", run);
            command.env("LD_PRELOAD", library());
        }
        command
    }
}
