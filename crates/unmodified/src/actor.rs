//! The actor: a program that does what its seed says, over several descriptors, streams, threads
//! and children.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Ended, Image};

/// The output of the actor, and the files it left.
pub type Acted = (Ended, Image);

/// Compiles the actor in two ways, as it is and as distributions build programs, into a directory.
pub fn compile(into: &Path) -> [PathBuf; 2] {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/semantics");
    let sources =
        ["actor.c", "descriptors.c", "names.c", "streams.c"].map(|file| sources.join(file));
    let plain: &[&str] = &["-O1", "-U_FORTIFY_SOURCE"];
    let fortified: &[&str] =
        &["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-D_FILE_OFFSET_BITS=64"];
    [("actor", plain), ("actor-fortified", fortified)].map(|(name, options)| {
        let program = into.join(name);
        // Under a name of its own first: other tests may run at the same time.
        let made = program.with_extension(std::process::id().to_string());
        let output = Command::new("cc")
            .args(["-std=gnu17", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
            .arg(&made)
            .args(options)
            .args(&sources)
            .output()
            .expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(&made, &program).unwrap();
        program
    })
}

/// Where two transcripts part, with the steps before.
fn parting(native: &str, told: &str) -> Option<String> {
    let (native, told): (Vec<_>, Vec<_>) = (native.lines().collect(), told.lines().collect());
    let place = (0..native.len().max(told.len())).find(|i| native.get(*i) != told.get(*i))?;
    let before = native[place.saturating_sub(3)..place].join("\n    ");
    let line =
        |lines: &[&str]| lines.get(place).map_or("(nothing)".into(), |line| (*line).to_owned());
    Some(format!("    {before}\n  - {}\n  + {}", line(&native), line(&told)))
}

/// How another run differs from the one without Striate, in words; `None` if it does not.
pub fn difference(native: &Acted, other: &Acted) -> Option<String> {
    let mut told = Vec::new();
    told.extend(parting(&native.0.stdout, &other.0.stdout));
    if native.0.status != other.0.status {
        told.push(format!("  ended with {:?} instead of {:?}", other.0.status, native.0.status));
    }
    told.extend(native.1.difference(&other.1).into_iter().map(|line| format!("  {line}")));
    if !told.is_empty() && !other.0.stderr.is_empty() {
        told.push(format!("  stderr: {}", other.0.stderr));
    }
    (!told.is_empty()).then(|| told.join("\n"))
}
