//! The command, with the library that is loaded into programs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library: it lies beside the command.
pub(crate) fn library() -> PathBuf {
    let library = Path::new(env!("CARGO_BIN_EXE_striate")).with_file_name("libstriate_preload.so");
    assert!(
        library.exists(),
        "{} is missing: 'cargo build --workspace' makes it",
        library.display()
    );
    library
}

/// The command, once the library is there.
pub(crate) fn striate() -> Command {
    library();
    let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
    command.env("NO_COLOR", "1").env_remove("STRIATE_PRELOAD").env_remove("LD_PRELOAD");
    command
}
