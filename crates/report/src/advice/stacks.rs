//! Stacks that the advice offers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::AdvisedStack;

fn ready(name: &str, text: &str) -> AdvisedStack {
    AdvisedStack { name: name.into(), text: text.into(), ready: true }
}

/// Small writes become blocks.
pub(super) fn write_back() -> AdvisedStack {
    ready("write-back", "[[stage]]\nkind = \"write-back\"\nblock = \"1MiB\"\n")
}

/// Small reads become large ones.
pub(super) fn read_ahead() -> AdvisedStack {
    ready("read-ahead", "[[stage]]\nkind = \"read-ahead\"\nwindow = \"4MiB\"\n")
}

/// Small files are written out together.
pub(super) fn combine() -> AdvisedStack {
    ready("combine", "[[stage]]\nkind = \"combine\"\nlimit = \"64KiB\"\n")
}

/// Writes begin and end at stripes.
pub(super) fn aligned() -> AdvisedStack {
    ready(
        "write-back and align",
        "[[stage]]\nkind = \"write-back\"\nblock = \"4MiB\"\n\n\
         [[stage]]\nkind = \"align\"\nstripe = \"1MiB\"\n",
    )
}

/// Files are made at a fast place. Where that is, people have to say.
pub(super) fn fast_place(files: &[String]) -> Option<AdvisedStack> {
    let from = common_directory(files)?;
    let from = toml_text(&from);
    let text = format!(
        "# Replace /local/scratch/NAME/fast by a directory on a local disk or in memory.\n\
         [[stage]]\nkind = \"path-rewrite\"\nrules = [{{ from = {from}, to = \"/local/scratch/NAME/fast\" }}]\n"
    );
    Some(AdvisedStack { name: "fast place".into(), text, ready: false })
}

/// Every stack that advice can show, for files in a directory.
pub(super) fn all(files: &[String]) -> impl Iterator<Item = AdvisedStack> {
    [write_back(), read_ahead(), combine(), aligned()].into_iter().chain(fast_place(files))
}

/// A text as TOML has it.
fn toml_text(path: &Path) -> String {
    let mut text = String::from("\"");
    for c in path.to_string_lossy().chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(text, "\\u{:04x}", c as u32);
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// The directory that all files are in.
fn common_directory(files: &[String]) -> Option<PathBuf> {
    let mut directories = files.iter().filter_map(|file| Path::new(file).parent());
    let mut common = directories.next()?.to_path_buf();
    for directory in directories {
        while !directory.starts_with(&common) {
            common = common.parent()?.to_path_buf();
        }
    }
    (common.is_absolute() && common != Path::new("/")).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_those_of_all() {
        let files = |list: &[&str]| list.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>();
        assert_eq!(common_directory(&files(&["/a/b/c", "/a/b/d/e"])), Some("/a/b".into()));
        assert_eq!(common_directory(&files(&["/a/b", "/c/d"])), None);
        assert_eq!(common_directory(&files(&["x"])), None);
        assert_eq!(common_directory(&[]), None);
    }
}
