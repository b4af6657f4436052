//! `striate fs ls`: lists a directory, or the names with a prefix.
//!
//! Directories are parts of names and nothing of their own: there is one as long as a file is in
//! it.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use striate_datatype::Bytes;
use striate_store::remote::FileInfo;

use super::{FileUrl, as_directory, shown};
use crate::document::Document;
use crate::number::grouped;
use crate::table::{Side, Table};
use crate::time::utc;
use crate::{CommandError, terminal};

/// List files
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate fs ls striate://io.example
  striate fs ls -l striate://io.example/run7/
  striate fs ls striate://io.example/run7/step-00    all names with this prefix
  striate fs ls -l rados://pool/namespace/
  striate fs ls -l s3://bucket/run7/

Sizes and times are those of the last sync, close or truncation of a file; 'striate fs stat' asks
the servers for the current size. Those of files in pools are current, and their times not known.")]
pub(crate) struct LsArgs {
    /// Also show size, strip, servers and time
    #[arg(short, long)]
    long: bool,

    /// List directories recursively
    #[arg(short = 'R', long)]
    recursive: bool,

    /// Files, directories or prefixes of names
    #[arg(required = true, value_name = "URL")]
    urls: Vec<FileUrl>,
}

/// A file, or a directory with all that is in it.
#[derive(Debug, PartialEq, Serialize)]
struct Entry {
    /// From the directory on that is listed.
    name: String,
    directory: bool,
    path: String,
    /// Of all files of a directory together.
    size: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    file: Option<ListedFile>,
}

/// What a directory does not have.
#[derive(Debug, PartialEq, Serialize)]
struct ListedFile {
    /// Objects have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    strip: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_ms: Option<u64>,
    modified_ms: u64,
}

pub(crate) fn run(args: &LsArgs, json: bool) -> Result<(), CommandError> {
    let mut rows = Vec::new();
    let mut text = String::new();
    for url in &args.urls {
        let files = url.list(url.path())?;
        let entries = entries(url.path(), files, args.recursive);
        if entries.is_empty() && !url.path().is_empty() {
            return Err(CommandError::failed(
                format!("cannot list {url}"),
                "there is no file or directory with this name or prefix",
                "'striate fs ls' of the directory above shows what there is",
            ));
        }
        if args.urls.len() > 1 {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            let _ = writeln!(text, "{}", terminal::heading(&format!("{url}:")));
        }
        text.push_str(&if args.long { long(&entries) } else { short(&entries) });
        rows.extend(entries);
    }
    if json { Document::new(rows, Vec::new()).print() } else { terminal::print(&text) }
}

/// What to show of the files whose paths begin with `prefix`.
fn entries(prefix: &str, files: Vec<FileInfo>, recursive: bool) -> Vec<Entry> {
    let inside = as_directory(prefix);
    let exact = files.iter().any(|file| file.path == prefix);
    let is_directory = !exact && files.iter().any(|file| file.path.starts_with(&inside));
    let wanted = |file: &FileInfo| match (exact, is_directory) {
        (true, _) => file.path == prefix,
        (_, true) => file.path.starts_with(&inside),
        _ => true,
    };
    let base = if is_directory { inside.len() } else { prefix.rfind('/').map_or(0, |at| at + 1) };
    let mut entries: Vec<Entry> = Vec::new();
    for file in files.into_iter().filter(wanted) {
        let name = &file.path[base..];
        match name.find('/').filter(|_| !recursive) {
            None => entries.push(Entry {
                name: name.to_owned(),
                directory: false,
                size: file.size,
                file: Some(ListedFile {
                    strip: (file.strip > 0).then_some(file.strip),
                    servers: file.servers,
                    created_ms: (file.created_ms > 0).then_some(file.created_ms),
                    modified_ms: file.modified_ms,
                }),
                path: file.path,
            }),
            Some(at) => {
                let name = &name[..=at];
                match entries.iter_mut().find(|entry| entry.directory && entry.name == name) {
                    Some(known) => known.size += file.size,
                    None => entries.push(Entry {
                        name: name.to_owned(),
                        directory: true,
                        size: file.size,
                        path: file.path[..=base + at].to_owned(),
                        file: None,
                    }),
                }
            }
        }
    }
    entries
}

fn short(entries: &[Entry]) -> String {
    entries.iter().flat_map(|entry| [shown(&entry.name), "\n".to_owned()]).collect()
}

fn long(entries: &[Entry]) -> String {
    let mut table = Table::new(&[
        ("size", Side::Right),
        ("strip", Side::Right),
        ("servers", Side::Right),
        ("modified", Side::Left),
        ("name", Side::Left),
    ]);
    for entry in entries {
        let nothing = || ("-".to_owned(), "-".to_owned(), "-".to_owned());
        let (strip, servers, time) = entry.file.as_ref().map_or_else(nothing, |file| {
            let strip = file.strip.map_or("-".to_owned(), |strip| Bytes(strip).to_string());
            let servers = match file.servers.len() {
                0 => "-".to_owned(),
                count => count.to_string(),
            };
            let time = if file.modified_ms == 0 { "-".to_owned() } else { utc(file.modified_ms) };
            (strip, servers, time)
        });
        table.row([grouped(entry.size), strip, servers, time, shown(&entry.name)]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(prefix: &str, recursive: bool) -> Vec<String> {
        let paths = ["a", "run/1", "run/2", "run/sub/x", "run/sub/y", "runaway", "s/t/u"];
        let begins = paths.iter().filter(|path| path.starts_with(prefix));
        let files = begins.map(|path| FileInfo {
            path: (*path).to_owned(),
            file: 1,
            strip: 512,
            servers: vec!["h:1".into()],
            size: 10,
            created_ms: 0,
            modified_ms: 0,
            truncations: 0,
            objects: Vec::new(),
        });
        let entries = entries(prefix, files.collect(), recursive);
        entries.into_iter().map(|entry| format!("{} {}", entry.name, entry.size)).collect()
    }

    #[test]
    fn directories_are_parts_of_names() {
        assert_eq!(names("", false), ["a 10", "run/ 40", "runaway 10", "s/ 10"]);
        assert_eq!(names("run/", false), ["1 10", "2 10", "sub/ 20"]);
        assert_eq!(names("run", false), ["1 10", "2 10", "sub/ 20"]);
        assert_eq!(names("run/sub", true), ["x 10", "y 10"]);
        assert_eq!(names("s", false), ["t/ 10"]);
        assert_eq!(names("s", true), ["t/u 10"]);
    }

    #[test]
    fn files_and_prefixes_are_found() {
        assert_eq!(names("a", false), ["a 10"]);
        assert_eq!(names("run/1", false), ["1 10"]);
        assert_eq!(names("ru", false), ["run/ 40", "runaway 10"]);
        assert_eq!(names("run/s", false), ["sub/ 20"]);
        assert!(names("x", false).is_empty());
    }
}
