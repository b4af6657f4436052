//! Symbolic links: the resolution of paths.
//!
//! A link is known by the result of `readlink`, or by the length in that of `lstat`: then it leads
//! to a generated name in the same directory, which stands for its target.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use super::{FileType, Initial, Link, Namespace, Node, NodeId};
use crate::fix::Fix;

/// Links that are followed for one path: the kernel follows as many.
const MOST_LINKS: usize = 40;

impl Namespace {
    /// The name that a path leads to; the last link in it is followed if `last`.
    pub(super) fn resolve<'p>(&self, path: &'p Path, last: bool) -> Cow<'p, Path> {
        if self.has_links { resolved(path, last, |path| self.link_at(path)) } else { path.into() }
    }

    fn link_at(&self, path: &Path) -> Option<&Path> {
        self.nodes[self.node(path)?].link.as_ref().map(|link| link.to.as_path())
    }

    /// A call shows that a symbolic link exists, and perhaps its target or the length of that.
    pub(super) fn there_link(
        &mut self,
        path: &Path,
        to: Option<&Path>,
        length: Option<u64>,
    ) -> (NodeId, Option<Fix>) {
        if !self.follows {
            return self.there(path, None, 0);
        }
        self.beneath(path);
        let link = match to {
            Some(to) => Link { to: to.to_path_buf(), known: true },
            None => Link { to: made_up(path, length.unwrap_or(8)), known: false },
        };
        let known = self.names.get(path).and_then(|name| name.node);
        if let Some(id) = known {
            let (learning, node) = (self.learning, &mut self.nodes[id]);
            let learns = node.link.as_ref().is_none_or(|before| link.known && !before.known);
            if learns && learning && node.first.is_some() {
                let (size, mode) = (node.size.filter(|_| node.link.is_none()), node.mode);
                let was_file = node.link.is_none() && !node.directory;
                node.link = Some(link);
                self.has_links = true;
                if was_file {
                    // Results for the link apply to its target.
                    let target = self.resolve(path, true).into_owned();
                    let (target, _) = self.there(&target, size, 0);
                    if let Some(mode) = mode {
                        self.has_mode(target, mode);
                    }
                }
            }
            return (id, None);
        }
        self.has_links = true;
        let first = self.first_path(path).map(|path| (path, None));
        let fix = first.is_none().then(|| Fix::Link(path.to_path_buf(), link.to.clone()));
        let node = self.new_node(Node { link: Some(link), first, ..Node::default() });
        self.set_name(path, Some(node), 0);
        (node, fix)
    }

    /// A call has made a symbolic link.
    pub(super) fn made_link(&mut self, path: &Path, to: &Path, until: u64) -> NodeId {
        self.beneath(path);
        let link = Some(Link { to: to.to_path_buf(), known: true });
        let link = link.filter(|_| self.follows);
        self.has_links |= link.is_some();
        let node = self.new_node(Node { link, touched: true, until, ..Node::default() });
        self.set_name(path, Some(node), until);
        node
    }
}

fn resolved<'p, 'w>(
    path: &'p Path,
    last: bool,
    link_at: impl Fn(&Path) -> Option<&'w Path>,
) -> Cow<'p, Path> {
    // The first link of a path is one of those above it as they are written.
    if !path.ancestors().skip(usize::from(!last)).any(|above| link_at(above).is_some()) {
        return path.into();
    }
    let mut left: Vec<OsString> = Vec::new();
    push(&mut left, path);
    let mut at = if path.is_absolute() { PathBuf::from("/") } else { PathBuf::new() };
    let mut followed = 0;
    while let Some(part) = left.pop() {
        if part == OsStr::new("..") {
            at.pop();
            continue;
        }
        let next = at.join(part);
        match link_at(&next) {
            Some(to) if (last || !left.is_empty()) && followed < MOST_LINKS => {
                followed += 1;
                if to.is_absolute() {
                    at = PathBuf::from("/");
                }
                push(&mut left, to);
            }
            _ => at = next,
        }
    }
    at.into()
}

/// Puts the parts of a path before others that are left.
fn push(left: &mut Vec<OsString>, path: &Path) {
    left.extend(path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    }));
}

/// The target of a link of which only the length is known: a name of this length in the same
/// directory.
fn made_up(path: &Path, length: u64) -> PathBuf {
    const LONGEST: usize = 255;
    let length = usize::try_from(length).unwrap_or(1).clamp(1, 4095);
    let name = path.file_name().unwrap_or(OsStr::new("link")).to_string_lossy().into_owned();
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let short = length.min(LONGEST - 1) - (length - length.min(LONGEST - 1)) % 2;
    let letters = "to-".chars().chain(name.chars()).chain(std::iter::repeat('x'));
    let letters: String = letters.take(short.max(1)).collect();
    // A longer text says more than once that it begins here.
    PathBuf::from("./".repeat((length - letters.len()) / 2) + &letters)
}

/// What was there, with everything at the name that it is found by through links. Directories come
/// before what is in them.
pub(super) fn in_place(found: BTreeMap<PathBuf, Initial>) -> Vec<Initial> {
    let links: BTreeMap<PathBuf, PathBuf> = found
        .values()
        .filter_map(|initial| match &initial.file_type {
            FileType::Link(to) => Some((initial.path.clone(), to.clone())),
            _ => None,
        })
        .collect();
    if links.is_empty() {
        return found.into_values().collect();
    }
    let mut placed: BTreeMap<PathBuf, Initial> = BTreeMap::new();
    for (path, mut initial) in found {
        let follows = !matches!(initial.file_type, FileType::Link(_));
        let place =
            resolved(&path, follows, |path| links.get(path).map(PathBuf::as_path)).into_owned();
        for above in place.ancestors().skip(1) {
            let directory = |path: &Path| Initial {
                path: path.to_path_buf(),
                file_type: FileType::Directory,
                mode: None,
            };
            placed.entry(above.to_path_buf()).or_insert_with(|| directory(above));
        }
        initial.path.clone_from(&place);
        let entry = placed.entry(place).or_insert_with(|| initial.clone());
        match (&mut entry.file_type, initial.file_type) {
            (FileType::File(size), FileType::File(other)) => *size = other.max(*size),
            (FileType::File(_), other @ (FileType::Directory | FileType::Link(_))) => {
                entry.file_type = other;
            }
            _ => {}
        }
        entry.mode = entry.mode.or(initial.mode);
    }
    placed.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed() {
        let links: BTreeMap<&str, &str> = [
            ("/lib", "usr/lib"),
            ("/usr/lib/a", "../share/a"),
            ("/abs", "/lib/a"),
            ("/loop", "loop"),
        ]
        .into();
        let lead = |path: &'static str, last| {
            resolved(Path::new(path), last, |path| {
                links.get(path.to_str()?).map(|to| Path::new(*to))
            })
            .into_owned()
        };
        for (path, last, to) in [
            ("/usr/x", true, "/usr/x"),
            ("/lib/x", true, "/usr/lib/x"),
            ("/lib/a/x", true, "/usr/share/a/x"),
            ("/lib/a", false, "/usr/lib/a"),
            ("/abs/y", false, "/usr/share/a/y"),
            ("/loop", true, "/loop"),
        ] {
            assert_eq!(lead(path, last), Path::new(to), "{path}");
        }
    }

    #[test]
    fn made_up_texts_have_their_length() {
        for length in [1, 2, 7, 254, 255, 256, 257, 999, 4095] {
            let to = made_up(Path::new("/data/current"), length);
            assert_eq!(to.as_os_str().len() as u64, length, "{to:?}");
            assert!(to.file_name().is_some_and(|name| name.len() < 256));
        }
    }
}
