//! The tour of the README, as it is written there, in a terminal of 80 columns.
//!
//! Blocks of the README that are marked `<!-- tour -->` are run, one after the other, in one shell, in a new
//! directory, with the command on PATH. Every command has to succeed, nothing it prints may be wider than the
//! terminal, and of every line that the README shows a word has to be printed.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{command, plain};

const COLUMNS: usize = 80;
const MARK: &str = "<!-- tour -->\n```console\n";

/// A command, and what the README shows of its answer.
#[derive(Debug)]
struct Step {
    command: String,
    shown: Vec<String>,
}

fn steps(readme: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in readme.split(MARK).skip(1) {
        let block = block.split("\n```").next().unwrap();
        for line in block.lines() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { command: command.to_owned(), shown: Vec::new() });
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

/// Words that a line has, if it has any that do not change from run to run.
fn words(line: &str) -> Vec<&str> {
    let words = line.split(|c: char| !c.is_ascii_alphabetic());
    words.filter(|word| word.len() >= 4).collect()
}

/// The steps as a script: what each prints is between lines that name it, and the second tells how it ended.
fn script(steps: &[Step]) -> String {
    let mut script = String::from("set -m\n");
    for (number, Step { command, .. }) in steps.iter().enumerate() {
        let _ = writeln!(script, "echo; echo '@@begin {number}'\n{command}");
        let _ = writeln!(script, "echo \"\n@@end {number} $?\"");
    }
    script.push_str("kill $(jobs -p) 2>/dev/null; wait\n");
    script
}

#[test]
fn the_tour_works_as_written() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let steps = steps(&fs::read_to_string(readme).unwrap());
    assert!(steps.len() >= 15, "{steps:?}");
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("tour.sh"), script(&steps)).unwrap();
    let mut session = command("bash tour.sh", COLUMNS, directory.path());
    // What leaves something for people to look at leaves it here.
    let output = session.env("TMPDIR", directory.path()).output().unwrap();
    let text = plain(&String::from_utf8_lossy(&output.stdout));
    for (number, Step { command, shown }) in steps.iter().enumerate() {
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
            let words = words(line);
            let known = words.is_empty() || words.iter().any(|word| printed.contains(word));
            assert!(known, "{command}: nothing of '{line}' in\n{printed}");
        }
    }
    // What is shown fits as well.
    for Step { shown, .. } in &steps {
        for line in shown {
            assert!(line.chars().count() <= COLUMNS, "the README shows '{line}'");
        }
    }
}
