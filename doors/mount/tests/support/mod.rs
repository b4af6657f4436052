//! A mount for a test, which is gone when the test is over, whichever way it ends.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use striate_mount::{Mounted, Options};
use striate_stack::Stack;
use striate_unmodified as unmodified;
use tempfile::TempDir;

/// A directory that is mounted a second time.
pub struct Mount {
    mounted: Option<Mounted>,
    place: TempDir,
}

impl Mount {
    /// Without stages.
    pub fn plain() -> Self {
        Self::with("")
    }

    /// With a stack. `SOURCE` and `BESIDE` stand for directories.
    pub fn with(stack: &str) -> Self {
        Self::of(stack, |_| {})
    }

    /// The same, with other options.
    pub fn of(stack: &str, change: impl FnOnce(&mut Options)) -> Self {
        let place = place();
        let stack = build(stack, &place);
        Self::begin(place, stack, change)
    }

    /// With one of the stacks that must not be noticed.
    pub fn under(stack: &unmodified::Stack) -> Self {
        Self::with(&text(stack))
    }

    /// The same, with other options.
    pub fn under_with(stack: &unmodified::Stack, change: impl FnOnce(&mut Options)) -> Self {
        Self::of(&text(stack), change)
    }

    /// Mounts once more.
    pub fn again(&mut self, stack: &unmodified::Stack) {
        renew(&self.point(""));
        for name in ["work", "tmp"] {
            std::fs::remove_dir(self.point(name)).unwrap();
        }
        let options = Options::new(self.source(""), self.point(""));
        self.mounted = Some(Mounted::new(&options, build(&text(stack), &self.place)).unwrap());
    }

    /// With a stack that is built already.
    pub fn built(stack: Stack) -> Self {
        Self::begin(place(), stack, |_| {})
    }

    fn begin(place: TempDir, stack: Stack, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(place.path().join("source"), place.path().join("point"));
        change(&mut options);
        let mounted = Mounted::new(&options, stack).unwrap();
        Self { mounted: Some(mounted), place }
    }

    /// A path below the point.
    pub fn point(&self, name: &str) -> PathBuf {
        self.place.path().join("point").join(name)
    }

    /// The same file on the source.
    pub fn source(&self, name: &str) -> PathBuf {
        self.place.path().join("source").join(name)
    }

    /// Where what is needed but not looked at lies.
    pub fn beside(&self) -> PathBuf {
        self.place.path().join("beside")
    }

    /// The mount itself.
    pub fn mounted(&self) -> &Mounted {
        self.mounted.as_ref().unwrap()
    }

    /// Unmounts; then the source can be looked at.
    pub fn end(&mut self) {
        self.mounted.take().unwrap().end().unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily, if a test that failed still has files open.
        drop(self.mounted.take());
    }
}

fn place() -> TempDir {
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let place = tempfile::Builder::new().prefix("striate-mount-").tempdir_in(root).unwrap();
    for name in ["source/work", "source/tmp", "point", "beside/fast", "beside/run"] {
        std::fs::create_dir_all(place.path().join(name)).unwrap();
    }
    // A mount has taken away the mask of this process, and what others can write to is not
    // believed.
    for name in ["", "beside", "beside/fast"] {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place.path().join(name), mode).unwrap();
    }
    place
}

fn text(stack: &unmodified::Stack) -> String {
    let text = stack.text("SOURCE".as_ref(), "BESIDE".as_ref()).unwrap();
    // What is counted is not printed.
    let count = "kind = \"count\"\n";
    text.replace(count, &format!("{count}directory = \"BESIDE/run\"\n"))
}

fn build(stack: &str, place: &TempDir) -> Stack {
    let [source, beside] = ["source", "beside"].map(|name| place.path().join(name));
    let text = stack
        .replace("SOURCE", source.to_str().unwrap())
        .replace("BESIDE", beside.to_str().unwrap());
    let stack = striate_stages::parse_stack(&text).and_then(|stack| stack.build());
    stack.unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Empties the directories that programs work in, below another.
pub fn renew(below: &Path) {
    for name in ["work", "tmp"] {
        let directory = below.join(name);
        if directory.exists() {
            std::fs::remove_dir_all(&directory).unwrap();
        }
        std::fs::create_dir(&directory).unwrap();
    }
}

/// A program that works below a directory.
pub fn command(program: impl AsRef<std::ffi::OsStr>, below: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command
        .current_dir(below.join("work"))
        .env("TMPDIR", below.join("tmp"))
        .env("HOME", std::env::temp_dir())
        .env("LC_ALL", "C");
    command
}
