//! The tour of the guide, as it is written, from a fresh clone, in a terminal of 80 columns.
//!
//! Blocks of the guide that are marked `<!-- tour -->` are run, one after the other, in one shell
//! that begins in a clone of this repository. Every command has to succeed, nothing that it prints
//! may be wider than the terminal, and every line that the guide shows has to be printed: the same
//! words in the same order, with any numbers.
//!
//! Cargo would build the clone anew, for minutes. A program of its name says instead that this
//! build has been made: the clone's `target/release` is the directory of the command that is
//! tested. `STRIATE_TOUR_BUILD=1` lets cargo do it.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use striate_testing::copy_program;

use super::{command, plain};

/// The text with the tour, in the repository.
const GUIDE: &str = "docs/guide.md";
const COLUMNS: usize = 80;
const MARK: &str = "<!-- tour -->\n```console\n";

/// Words of lines that turn out otherwise from run to run: their own words have to be printed, in
/// any order. (The headings of methods are wrapped where the method that `auto` takes has a long
/// name.)
const VOLATILE: [&str; 6] = ["auto:", "kept", "--wide", "powers", "around", "method"];

/// A command, and what the guide shows of its answer.
#[derive(Debug)]
struct TourStep {
    command: String,
    shown: Vec<String>,
}

fn steps(guide: &str) -> Vec<TourStep> {
    let mut steps: Vec<TourStep> = Vec::new();
    for block in guide.split(MARK).skip(1) {
        let block = block.split("\n```").next().unwrap();
        for line in block.lines() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(TourStep { command: command.to_owned(), shown: Vec::new() });
                }
                (None, Some(step)) if step.shown.is_empty() && step.command.ends_with('\\') => {
                    step.command.push('\n');
                    step.command.push_str(line);
                }
                (None, Some(step)) => step.shown.push(line.to_owned()),
                (None, None) => panic!("a block that begins with an answer: {line}"),
            }
        }
    }
    steps
}

/// A text as words, in which everything that differs between runs and machines is the same:
/// numbers, identifiers, units of sizes and times, paths of this machine, names of file systems.
fn pattern(text: &str) -> Vec<String> {
    const UNITS: [&str; 11] =
        ["EiB", "PiB", "TiB", "GiB", "MiB", "KiB", "bytes", "byte", "µs", "ms", "ns"];
    const SYSTEMS: [&str; 5] = ["ext4", "tmpfs", "overlay", "xfs", "btrfs"];
    let word = |word: &str| {
        let bare = word.trim_matches(['(', ')', ',', ':', ';', '…']);
        if bare.starts_with('/') {
            return word.replace(bare, "PATH");
        }
        if SYSTEMS.contains(&bare) {
            return word.replace(bare, "SYSTEM");
        }
        if ["B", "s"].contains(&bare) {
            return word.replace(bare, "UNIT");
        }
        let mut word = without_numbers(word);
        for unit in UNITS {
            word = word.replace(unit, "UNIT");
        }
        word
    };
    text.split_whitespace().map(word).collect()
}

/// A word with `#` in the place of every number, with its points and commas, and of every
/// hexadecimal identifier.
fn without_numbers(word: &str) -> String {
    let mut text = String::new();
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let run = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
        let is_identifier = run >= 8
            && rest[..run].chars().all(|c| c.is_ascii_hexdigit())
            && rest[..run].contains(|c: char| c.is_ascii_digit());
        let number = rest.len()
            - rest.trim_start_matches(|c: char| c.is_ascii_digit() || ",.".contains(c)).len();
        // A mark at the end of a sentence is no part of the number before it.
        let number = rest[..number].trim_end_matches([',', '.']).len();
        let len = match first {
            _ if is_identifier => run,
            first if first.is_ascii_digit() => number,
            first => {
                text.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
        };
        text.push('#');
        rest = &rest[len..];
    }
    text
}

/// Whether a line of the guide is in what was printed.
fn is_printed(line: &str, printed: &str) -> bool {
    let line = pattern(line);
    if line.is_empty() || line == ["…"] {
        return true;
    }
    let printed = pattern(printed);
    if line.iter().any(|word| VOLATILE.iter().any(|volatile| word.starts_with(volatile))) {
        let own =
            line.iter().filter(|word| word.chars().filter(char::is_ascii_alphabetic).count() > 3);
        let mut own = own.filter(|word| !word.contains("UNIT") && !word.contains("PATH"));
        return own.any(|word| printed.contains(word));
    }
    printed.windows(line.len()).any(|window| window == line)
}

/// The steps as a script: what each prints is between lines that name it, and the second has its
/// status.
fn script(steps: &[TourStep]) -> String {
    let mut script = String::from("set -m\n");
    for (number, TourStep { command, .. }) in steps.iter().enumerate() {
        let _ = writeln!(script, "echo; echo '@@begin {number}'\n{command}");
        let _ = writeln!(script, "echo \"\n@@end {number} $?\"");
    }
    script.push_str("kill $(jobs -p) 2>/dev/null; wait\n");
    script
}

/// Runs git, which also believes repositories of other users; what it prints.
fn git(arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "safe.directory=*", "-c", "advice.detachedHead=false"]).args(arguments);
    // Also for the processes that git starts.
    command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory");
    command.env("GIT_CONFIG_VALUE_0", "*").env_remove("GIT_DIR");
    let output = command.output().expect("git");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Clones this repository, with the changes that are not committed yet: only files that git knows
/// are there.
fn clone_into(clone: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let (from, to) = (root.to_str().unwrap(), clone.to_str().unwrap());
    git(&["clone", "--quiet", "--shared", from, to]);
    let changed = git(&["-C", from, "diff", "--name-only", "--relative", "-z", "HEAD"]);
    for name in changed.split_terminator('\0') {
        let (own, copy) = (root.join(name), clone.join(name));
        if own.is_file() {
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            copy_program(own, copy);
        } else {
            let _ = fs::remove_file(copy);
        }
    }
}

/// A `cargo` for which the build of the clone is the one that is tested.
fn stand_in_for_cargo(directory: &Path, clone: &Path) {
    let built = Path::new(env!("CARGO_BIN_EXE_striate")).parent().unwrap();
    fs::create_dir(clone.join("target")).unwrap();
    symlink(built, clone.join("target/release")).unwrap();
    let script = "#!/bin/sh\n\
                  case \"$*\" in\n\
                  'build --release') exec test -x target/release/striate ;;\n\
                  'run --release -- '*) shift 3; exec target/release/striate \"$@\" ;;\n\
                  *) echo \"cargo $*: the tour does not have this\" >&2; exit 1 ;;\n\
                  esac\n";
    fs::create_dir(directory).unwrap();
    let program = directory.join("cargo");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_tour_works_as_written() {
    let directory = tempfile::tempdir().unwrap();
    let clone = directory.path().join("striate");
    clone_into(&clone);
    let steps = steps(&fs::read_to_string(clone.join(GUIDE)).unwrap());
    assert!(steps.len() >= 15, "{steps:?}");
    let file = directory.path().join("tour.sh");
    fs::write(&file, script(&steps)).unwrap();
    let mut session = command(&format!("bash {}", file.display()), COLUMNS, &clone);
    // The command is found where the guide says, and nowhere else.
    let mut path = std::env::var("PATH").unwrap();
    if std::env::var_os("STRIATE_TOUR_BUILD").is_none() {
        let stand_in = directory.path().join("bin");
        stand_in_for_cargo(&stand_in, &clone);
        path = format!("{}:{path}", stand_in.display());
    }
    let temporary = directory.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    session.env("PATH", path).env("TMPDIR", temporary).env_remove("CARGO_TARGET_DIR");
    let output = session.output().unwrap();
    let text = plain(&String::from_utf8_lossy(&output.stdout));
    for (number, TourStep { command, shown }) in steps.iter().enumerate() {
        let begin = format!("@@begin {number}\n");
        let printed = text.split(&begin).nth(1).unwrap_or_else(|| panic!("{command}: {text}"));
        let end = format!("\n@@end {number} ");
        let (printed, status) =
            printed.split_once(&end).unwrap_or_else(|| panic!("{command}: {text}"));
        assert!(status.starts_with("0\n"), "{command}: {status:.3}\n{printed}");
        for line in printed.lines() {
            assert!(line.trim_end().chars().count() <= COLUMNS, "{command} prints '{line}'");
        }
        for line in shown {
            assert!(is_printed(line, printed), "{command}: not '{line}' in\n{printed}");
            // It fits as well.
            assert!(line.chars().count() <= COLUMNS, "the guide shows '{line}'");
        }
        // A command that the guide shows without an answer has none.
        let is_ours = ["striate ", "diff "].iter().any(|word| command.starts_with(word));
        let is_silent = shown.is_empty() && is_ours && !command.ends_with('&');
        assert!(!is_silent || printed.trim().is_empty(), "{command} prints\n{printed}");
    }
}

#[test]
fn lines_match_by_words_with_any_numbers() {
    let printed = "copied 1 file, 28.61 MiB in\n0.151 s (189.6 MiB/s)\n  0  127.0.0.1:35817  7,536 bytes\n 3  4\n";
    assert!(is_printed("copied 12 file, 2 KiB in 9.1 s (1,189 GiB/s)", printed));
    assert!(is_printed("  7  10.0.0.9:1  17 bytes", printed));
    assert!(is_printed("9  8", printed) && is_printed("…", printed));
    // Another word, a missing number and a line of numbers that is not there are found.
    assert!(!is_printed("copied 1 files, 28.61 MiB in", printed));
    assert!(!is_printed("copied file", printed));
    assert!(!is_printed("9  8  7", printed));
    assert_eq!(without_numbers("parts.part0000-419801d9.nc"), "parts.part#-#.nc");
    assert_eq!(without_numbers("1,483."), "#.");
    assert_eq!(pattern("(114.8 KiB) on ext4 (/tmp)"), pattern("(2 MiB) on tmpfs (/dev/shm/x)"));
}
