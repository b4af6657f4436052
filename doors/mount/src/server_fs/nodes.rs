//! [`ServerNodes`]: the files and directories of servers that the kernel knows, by number and by
//! path.
//!
//! Servers have files only: a directory exists as long as a file is in it. So directories that were
//! created in this mount, or whose last file was removed in it, are kept in a list until they are
//! removed or the mount ends.
//!
//! The number of a file follows from its id, whatever its name; that of a directory from its path,
//! if that number is free.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash as _, Hasher as _};
use std::ops::Bound;

/// The number of the directory that is mounted.
pub(super) const ROOT: u64 = 1;

/// Distinguishes the number of a directory from that of a file.
const OF_DIRECTORIES: u64 = 1 << 63;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    /// A file, by its id.
    File(u64),
    Directory,
}

/// A file or directory that the kernel knows.
#[derive(Clone, Debug)]
pub(super) struct ServerNode {
    /// As servers spell it; empty for the whole of a file system.
    pub(super) path: String,
    pub(super) sort: NodeKind,
    /// Whether it was removed while it is open.
    pub(super) gone: bool,
    /// How many lookups of the kernel have returned it, less those that it forgot.
    known: u64,
}

/// All that the kernel knows.
#[derive(Debug)]
pub(super) struct ServerNodes {
    nodes: HashMap<u64, ServerNode>,
    numbers: HashMap<String, u64>,
    /// Directories that exist even if no file is in them.
    kept: BTreeSet<String>,
}

/// A name in a directory.
pub(super) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// The directory that a path is in.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The number of a file.
pub(super) fn number_of_file(file: u64) -> u64 {
    // The first id is 1, which is the number of the root.
    file.wrapping_add(1) & !OF_DIRECTORIES
}

impl ServerNodes {
    pub(super) fn new(base: &str) -> Self {
        let root =
            ServerNode { path: base.to_owned(), sort: NodeKind::Directory, gone: false, known: 1 };
        Self {
            nodes: HashMap::from([(ROOT, root)]),
            numbers: HashMap::from([(base.to_owned(), ROOT)]),
            kept: BTreeSet::new(),
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<&ServerNode> {
        self.nodes.get(&number)
    }

    /// The number of what is at a path, as far as it is known.
    pub(super) fn at(&self, path: &str) -> Option<u64> {
        self.numbers.get(path).copied()
    }

    /// A lookup of the kernel has found a file at a path.
    pub(super) fn found_file(&mut self, path: &str, file: u64) -> u64 {
        self.found(number_of_file(file), path, NodeKind::File(file))
    }

    /// The same for a directory.
    pub(super) fn found_directory(&mut self, path: &str) -> u64 {
        self.found(self.number_of_directory(path), path, NodeKind::Directory)
    }

    /// The number that the directory at a path has, or would get.
    pub(super) fn number_of_directory(&self, path: &str) -> u64 {
        let is_directory = |number: &u64| {
            self.nodes.get(number).is_some_and(|node| node.sort == NodeKind::Directory)
        };
        if let Some(number) = self.at(path).filter(is_directory) {
            return number;
        }
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        let mut number = hasher.finish() | OF_DIRECTORIES;
        // One that was renamed keeps its number.
        while self.nodes.contains_key(&number) {
            number = number.wrapping_add(1) | OF_DIRECTORIES;
        }
        number
    }

    fn found(&mut self, number: u64, path: &str, sort: NodeKind) -> u64 {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.known += 1;
            if node.path != path {
                if self.numbers.get(&node.path) == Some(&number) {
                    self.numbers.remove(&node.path);
                }
                path.clone_into(&mut node.path);
            }
        } else {
            let node = ServerNode { path: path.to_owned(), sort, gone: false, known: 1 };
            self.nodes.insert(number, node);
        }
        self.numbers.insert(path.to_owned(), number);
        number
    }

    /// The kernel forgets so many lookups.
    pub(super) fn forget(&mut self, number: u64, times: u64) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        node.known = node.known.saturating_sub(times);
        if node.known > 0 || number == ROOT {
            return;
        }
        if let Some(node) = self.nodes.remove(&number)
            && self.numbers.get(&node.path) == Some(&number)
        {
            self.numbers.remove(&node.path);
        }
    }

    /// The directory exists from now on, whether a file is in it or not.
    pub(super) fn keep(&mut self, directory: &str) {
        if !directory.is_empty() {
            self.kept.insert(directory.to_owned());
        }
    }

    /// Whether a directory exists even if no file is in it: itself, or because of one in it.
    pub(super) fn is_kept(&self, directory: &str) -> bool {
        self.kept.contains(directory) || self.kept_below(directory).next().is_some()
    }

    /// Directories below another that exist even if no file is in them.
    pub(super) fn kept_below(&self, directory: &str) -> impl Iterator<Item = &str> {
        let inside = inside(directory);
        let from = (Bound::Included(inside.clone()), Bound::Unbounded);
        let all = self.kept.range::<String, _>(from).map(String::as_str);
        all.take_while(move |path| path.starts_with(&inside))
    }

    /// A directory exists only if a file is in it.
    pub(super) fn unkeep(&mut self, directory: &str) {
        self.kept.remove(directory);
    }

    /// What is at a path, with all below it, is at another.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let below = inside(from);
        let moved = |path: &str| match path.strip_prefix(&below) {
            Some(rest) => Some(join(to, rest)),
            None => (path == from).then(|| to.to_owned()),
        };
        let kept: Vec<_> =
            self.kept.iter().filter_map(|old| Some((old.clone(), moved(old)?))).collect();
        for (old, new) in kept {
            self.kept.remove(&old);
            self.kept.insert(new);
        }
        let known: Vec<_> = self
            .numbers
            .iter()
            .filter_map(|(old, number)| Some((old.clone(), moved(old)?, *number)))
            .collect();
        for (old, new, number) in known {
            self.numbers.remove(&old);
            if let Some(node) = self.nodes.get_mut(&number) {
                new.clone_into(&mut node.path);
            }
            self.numbers.insert(new, number);
        }
    }

    /// A file that is open was given a hidden name.
    pub(super) fn hide(&mut self, number: u64, path: &str) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        if self.numbers.get(&node.path) == Some(&number) {
            self.numbers.remove(&node.path);
        }
        path.clone_into(&mut node.path);
        node.gone = true;
    }

    /// The node at a path no longer exists.
    pub(super) fn remove(&mut self, path: &str) {
        self.numbers.remove(path);
    }
}

/// What the paths of all that is in a directory begin with.
pub(super) fn inside(directory: &str) -> String {
    if directory.is_empty() { String::new() } else { format!("{directory}/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_their_numbers_and_directories_move_with_all_that_is_in_them() {
        let mut nodes = ServerNodes::new("base");
        let directory = nodes.found_directory("base/d");
        let file = nodes.found_file("base/d/f", 7);
        assert_eq!((nodes.at("base"), nodes.at("base/d"), file), (Some(ROOT), Some(directory), 8));
        nodes.keep("base/d/empty");
        nodes.rename("base/d", "base/e");
        assert_eq!(nodes.get(file).unwrap().path, "base/e/f");
        assert_eq!(nodes.found_directory("base/e"), directory);
        assert!(
            nodes.is_kept("base/e/empty") && nodes.is_kept("base/e") && !nodes.is_kept("base/d")
        );
        // A new directory of the old name is another one.
        assert_ne!(nodes.found_directory("base/d"), directory);
        // Another client has renamed the file.
        assert_eq!(nodes.found_file("base/g", 7), file);
        assert_eq!((nodes.at("base/e/f"), nodes.at("base/g")), (None, Some(file)));
        nodes.forget(file, 1);
        assert!(nodes.get(file).is_some());
        nodes.forget(file, 1);
        assert!(nodes.get(file).is_none() && nodes.at("base/g").is_none());
        nodes.forget(ROOT, 100);
        assert!(nodes.get(ROOT).is_some());
    }

    #[test]
    fn names_alike_in_their_beginning_stay_apart() {
        let mut nodes = ServerNodes::new("");
        let (one, other) = (nodes.found_file("ab", 1), nodes.found_file("a/b", 2));
        nodes.keep("a/x");
        nodes.keep("a-");
        nodes.rename("a", "c");
        assert_eq!((nodes.at("ab"), nodes.at("c/b")), (Some(one), Some(other)));
        assert_eq!(nodes.kept_below("").collect::<Vec<_>>(), ["a-", "c/x"]);
        assert_eq!(nodes.kept_below("c").collect::<Vec<_>>(), ["c/x"]);
        nodes.unkeep("c/x");
        assert!(!nodes.is_kept("c"));
    }

    #[test]
    fn what_was_removed_while_open_makes_room_for_another() {
        let mut nodes = ServerNodes::new("");
        let old = nodes.found_file("f", 1);
        nodes.hide(old, ".hidden");
        let new = nodes.found_file("f", 2);
        assert_eq!(nodes.at("f"), Some(new));
        assert!(nodes.get(old).unwrap().gone && !nodes.get(new).unwrap().gone);
        nodes.forget(old, 1);
        assert_eq!(nodes.at("f"), Some(new));
        assert_eq!((parent("a/b/c"), parent("a")), ("a/b", ""));
        assert_eq!((join("", "a"), join("a", "b")), ("a".into(), "a/b".into()));
    }
}
