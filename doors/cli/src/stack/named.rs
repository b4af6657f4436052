//! [`NamedStack`]: the built-in stacks, by their names.
//!
//! Wherever a command takes a stack, a name without a `/` and without `.toml` behind it is one of
//! these; anything else is a file. A file whose name is that of a stack is meant by `./name`, and
//! it is said that it was not taken.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::CommandError;

/// A stack that is part of this program.
#[derive(Debug)]
pub(crate) struct NamedStack {
    pub(crate) name: &'static str,
    /// The file of `etc/stacks`, by a link: a package has no files from outside.
    pub(crate) text: &'static str,
    /// Whether it names paths of an example machine, which have to be changed first.
    pub(crate) has_paths: bool,
}

macro_rules! stacks {
    ($($name:literal $paths:literal),* $(,)?) => {
        [$(NamedStack {
            name: $name,
            text: include_str!(concat!("../../stacks/", $name, ".toml")),
            has_paths: $paths,
        }),*]
    };
}

/// All of them.
pub(crate) static STACKS: [NamedStack; 9] = stacks![
    "before-and-after" false,
    "combine" false,
    "count" false,
    "fast-place" true,
    "faults" false,
    "read-ahead" false,
    "slow-storage" false,
    "trace" true,
    "write-back" false,
];

impl NamedStack {
    /// What it is for: the first sentence of its comment.
    pub(crate) fn about(&self) -> String {
        let comment = self.text.lines().map_while(|line| line.strip_prefix('#'));
        let words = comment.map(str::trim).collect::<Vec<_>>().join(" ");
        let end = words.match_indices(['.', ';', '?']).map(|(at, mark)| at + mark.len());
        // A period within a name ends nothing.
        let ends = |at: &usize| words[*at..].is_empty() || words[*at..].starts_with(' ');
        let sentence = end.into_iter().find(ends).map_or(words.as_str(), |end| &words[..end]);
        sentence.trim_end_matches(['.', ';']).to_owned()
    }
}

/// The stack of a name, if it is one.
pub(crate) fn named(name: &Path) -> Option<&'static NamedStack> {
    STACKS.iter().find(|stack| name.as_os_str() == stack.name)
}

/// What means the same stack from any directory: the name, or the whole path of a file.
pub(crate) fn lasting(given: &Path) -> PathBuf {
    if named(given).is_some() {
        return given.to_path_buf();
    }
    given.canonicalize().unwrap_or_else(|_| given.to_path_buf())
}

/// The text of a stack: one that comes along, or a file.
pub(crate) fn text(given: &Path) -> Result<Cow<'static, str>, CommandError> {
    let Some(stack) = named(given) else {
        return std::fs::read_to_string(given)
            .map(Cow::Owned)
            .map_err(|error| missing(given, error));
    };
    if stack.has_paths {
        let name = stack.name;
        return Err(CommandError::usage(
            format!("the stack '{name}' contains example paths that must be changed"),
            format!("'striate stack show {name} > {name}.toml', change them, and give that file"),
        ));
    }
    if given.is_file() {
        let name = stack.name;
        eprintln!("striate: '{name}' is the built-in stack; ./{name} would be the file here");
    }
    Ok(Cow::Borrowed(stack.text))
}

/// What is neither a stack that comes along nor a file.
fn missing(given: &Path, error: std::io::Error) -> CommandError {
    let looks_like_name = given.components().count() == 1
        && given.extension().is_none()
        && error.kind() == std::io::ErrorKind::NotFound;
    let names: Vec<&str> = STACKS.iter().map(|stack| stack.name).collect();
    let known = format!("the built-in ones are {}", names.join(", "));
    if looks_like_name {
        let message = format!("there is no stack '{}', and no such file", given.display());
        return CommandError::usage(message, known);
    }
    let beside = PathBuf::from(given.file_stem().unwrap_or_default());
    let hint = match named(&beside) {
        Some(stack) => format!("--stack {} is the built-in one", stack.name),
        None => known,
    };
    let attempted = format!("{} is not a stack", given.display());
    CommandError::failed(attempted, error, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stack_has_a_sentence_and_is_one() {
        for stack in &STACKS {
            let about = stack.about();
            assert!(about.len() > 20 && about.len() < 120, "{}: {about}", stack.name);
            striate_stages::parse_stack(stack.text).unwrap();
            assert_eq!(text(Path::new(stack.name)).is_err(), stack.has_paths);
            // A stack that names paths of an example machine says so.
            assert!(stack.has_paths || !stack.text.contains("\"/"), "{}", stack.name);
        }
        assert_eq!(
            named(Path::new("read-ahead")).unwrap().about(),
            "Strided and sequential small reads become large ones"
        );
    }

    #[test]
    fn all_files_of_the_directory_are_there() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/stacks");
        let mut files: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.sort();
        let names: Vec<&str> = STACKS.iter().map(|stack| stack.name).collect();
        assert_eq!(files, names);
    }

    #[test]
    fn what_is_missing_names_what_there_is() {
        let usage = text(Path::new("combin")).unwrap_err();
        assert!(matches!(&usage, CommandError::Usage { hint, .. } if hint.contains("combine")));
        let file = text(Path::new("etc/nowhere/combine.toml")).unwrap_err();
        assert!(
            matches!(&file, CommandError::Failed { hint, .. } if hint.contains("--stack combine"))
        );
    }
}
