//! [`Nodes`]: the files that the kernel knows of, by number; their names and what they are on the
//! source.
//!
//! The number of a node is the inode number of its file on the source wherever that is free, so
//! programs see the inode numbers they know. A file on another device, or one that is not on the
//! source yet because a stage keeps it elsewhere, gets a number from a separate range. Such a
//! *virtual* node stays the same node when the stage writes the file to the source, although the
//! file has another inode then: programs that compare inodes see no change.
//!
//! Nothing here makes a system call.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::source_fs::identity::Identity;

/// The number of the directory that is mounted.
pub(crate) const ROOT: u64 = 1;

/// Numbers of ours start here, where no file system has inodes.
const OURS: u64 = 1 << 60;

/// What a node is on the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A file of the source.
    Real(Identity),
    /// What a stage shows at a name, while the source has something else there, or nothing.
    Virtual(Identity),
}

impl Key {
    pub(crate) fn is_virtual(self) -> bool {
        matches!(self, Self::Virtual(_))
    }
}

/// A name in a directory.
pub(crate) type Name = (u64, OsString);

/// A file that the kernel knows of.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) key: Key,
    /// How many lookups of the kernel have returned it (FUSE's `nlookup`).
    lookups: u64,
    /// Its names, the one that was used last at the end.
    names: Vec<Name>,
    /// Whether stages have its bytes elsewhere, so that it may become another file on the source.
    pub(crate) is_elsewhere: bool,
    /// Keeps a file that has no name any more.
    pub(crate) pinned: Option<Arc<OwnedFd>>,
    /// What is open of it, by number.
    pub(crate) handles: Vec<u64>,
}

/// What became of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NodeLookup {
    pub(crate) id: u64,
    /// It is another file on the source than it was: a descriptor of it is of no use any more.
    pub(crate) changed: bool,
}

/// The files that the kernel knows of.
#[derive(Debug)]
pub(crate) struct Nodes {
    device: u64,
    next: u64,
    all: HashMap<u64, Node>,
    by_key: HashMap<Key, u64>,
    by_name: HashMap<u64, HashMap<OsString, u64>>,
}

impl Nodes {
    /// Only the root, which is this.
    pub(crate) fn new(root: Identity) -> Self {
        let key = Key::Real(root);
        let node = Node {
            key,
            lookups: 1,
            names: vec![],
            is_elsewhere: false,
            pinned: None,
            handles: vec![],
        };
        Self {
            device: root.device,
            next: OURS,
            all: HashMap::from([(ROOT, node)]),
            by_key: HashMap::from([(key, ROOT)]),
            by_name: HashMap::new(),
        }
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Node> {
        self.all.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Node> {
        self.all.get_mut(&id)
    }

    /// The node of a name.
    pub(crate) fn named(&self, parent: u64, name: &OsStr) -> Option<u64> {
        self.by_name.get(&parent)?.get(name).copied()
    }

    /// The node of a file.
    pub(crate) fn known(&self, key: Key) -> Option<u64> {
        self.by_key.get(&key).copied()
    }

    /// A name of a node: the one that was used last.
    pub(crate) fn name(&self, id: u64) -> Option<&Name> {
        self.all.get(&id)?.names.last()
    }

    /// Something was found at a name, which counts as so many lookups. `at_source` is what the
    /// source has there.
    pub(crate) fn found(
        &mut self,
        (parent, name): (u64, &OsStr),
        key: Key,
        at_source: Option<Identity>,
        times: u64,
    ) -> NodeLookup {
        let mut changed = false;
        let id = match self.by_key.get(&key) {
            Some(id) => *id,
            None => match self.same_at_name(parent, name, key, at_source) {
                Some(id) => {
                    changed = true;
                    self.rekey(id, key);
                    id
                }
                None => self.add(key),
            },
        };
        if id != ROOT {
            self.give_name(id, parent, name);
        }
        if let Some(node) = self.all.get_mut(&id) {
            node.lookups += times;
        }
        NodeLookup { id, changed }
    }

    /// The node at a name that is the same file, although it is another one on the source by now: a
    /// stage has moved it elsewhere or back.
    fn same_at_name(
        &self,
        parent: u64,
        name: &OsStr,
        key: Key,
        at_source: Option<Identity>,
    ) -> Option<u64> {
        let id = self.named(parent, name)?;
        let node = self.all.get(&id)?;
        match (node.key, key) {
            (Key::Virtual(_), _) => Some(id),
            _ if node.is_elsewhere => Some(id),
            (Key::Real(before), Key::Virtual(_)) if Some(before) == at_source => Some(id),
            _ => None,
        }
    }

    /// A node is another file on the source from now on.
    fn rekey(&mut self, id: u64, key: Key) {
        if let Some(node) = self.all.get_mut(&id) {
            self.by_key.remove(&node.key);
            node.key = key;
            node.is_elsewhere = false;
            node.pinned = None;
            self.by_key.insert(key, id);
        }
    }

    fn add(&mut self, key: Key) -> u64 {
        let id = match key {
            Key::Real(Identity { device, inode, .. })
                if device == self.device
                    && inode > ROOT
                    && inode < OURS
                    && !self.all.contains_key(&inode) =>
            {
                inode
            }
            _ => {
                self.next += 1;
                self.next
            }
        };
        let (names, handles) = (vec![], vec![]);
        let node = Node { key, lookups: 0, names, is_elsewhere: false, pinned: None, handles };
        self.all.insert(id, node);
        self.by_key.insert(key, id);
        id
    }

    fn give_name(&mut self, id: u64, parent: u64, name: &OsStr) {
        let names = self.by_name.entry(parent).or_default();
        match names.get_mut(name) {
            Some(before) if *before == id => {}
            Some(before) => {
                let before = std::mem::replace(before, id);
                self.lose_name(before, parent, name);
            }
            None => {
                names.insert(name.to_owned(), id);
            }
        }
        if let Some(node) = self.all.get_mut(&id)
            && node.names.last().is_none_or(|last| last.0 != parent || last.1 != name)
        {
            node.names.retain(|other| other.0 != parent || other.1 != name);
            node.names.push((parent, name.to_owned()));
        }
    }

    /// Takes a name out of the list of a node.
    fn lose_name(&mut self, id: u64, parent: u64, name: &OsStr) {
        if let Some(node) = self.all.get_mut(&id) {
            node.names.retain(|other| other.0 != parent || other.1 != name);
        }
    }

    /// A name no longer exists. `pinned` keeps the file if that was its last.
    pub(crate) fn removed(&mut self, parent: u64, name: &OsStr, pinned: Option<Arc<OwnedFd>>) {
        let Some(names) = self.by_name.get_mut(&parent) else { return };
        let Some(id) = names.remove(name) else { return };
        if names.is_empty() {
            self.by_name.remove(&parent);
        }
        self.lose_name(id, parent, name);
        if let Some(node) = self.all.get_mut(&id)
            && node.names.is_empty()
        {
            node.pinned = pinned;
        }
    }

    /// A name has become another one. What had that name is `removed` before.
    pub(crate) fn renamed(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) {
        let Some(id) = self.named(from.0, from.1) else { return };
        self.removed(from.0, from.1, None);
        self.give_name(id, to.0, to.1);
    }

    /// Two names were exchanged.
    pub(crate) fn exchanged(&mut self, one: (u64, &OsStr), other: (u64, &OsStr)) {
        let (first, second) = (self.named(one.0, one.1), self.named(other.0, other.1));
        self.removed(one.0, one.1, None);
        self.removed(other.0, other.1, None);
        for (id, (parent, name)) in [(first, other), (second, one)] {
            if let Some(id) = id {
                self.give_name(id, parent, name);
            }
        }
    }

    /// The kernel forgets lookups of a node. Returns whether it is not known any more.
    pub(crate) fn forget(&mut self, id: u64, times: u64) -> bool {
        let Some(node) = self.all.get_mut(&id) else { return false };
        node.lookups = node.lookups.saturating_sub(times);
        if node.lookups > 0 || id == ROOT {
            return false;
        }
        let Some(node) = self.all.remove(&id) else { return false };
        self.by_key.remove(&node.key);
        for (parent, name) in &node.names {
            if let Some(names) = self.by_name.get_mut(parent) {
                names.remove(name);
                if names.is_empty() {
                    self.by_name.remove(parent);
                }
            }
        }
        true
    }

    /// The path of a node below the source; `None` if it has none any more.
    pub(crate) fn path(&self, id: u64, source: &Path) -> Option<PathBuf> {
        let mut parts: Vec<&OsStr> = Vec::new();
        let mut at = id;
        while at != ROOT {
            // A cycle of names would be a bug.
            if parts.len() > 4096 {
                return None;
            }
            let (parent, name) = self.name(at)?;
            parts.push(name);
            at = *parent;
        }
        let mut path = source.to_path_buf();
        path.extend(parts.into_iter().rev());
        Some(path)
    }

    /// Whether a node may become another file on the source.
    pub(crate) fn may_change(&self, id: u64) -> bool {
        self.get(id).is_some_and(|node| node.is_elsewhere || node.key.is_virtual())
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(inode: u64) -> Identity {
        Identity { device: 7, inode, born: (0, 0) }
    }

    fn real(inode: u64) -> Key {
        Key::Real(identity(inode))
    }

    fn nodes() -> Nodes {
        Nodes::new(identity(2))
    }

    fn found(nodes: &mut Nodes, parent: u64, name: &str, key: Key) -> u64 {
        nodes.found((parent, OsStr::new(name)), key, None, 1).id
    }

    fn path(nodes: &Nodes, id: u64) -> Option<String> {
        nodes.path(id, Path::new("/s")).map(|path| path.display().to_string())
    }

    #[test]
    fn numbers_are_those_of_the_source_where_they_are_free() {
        let mut nodes = nodes();
        assert_eq!(found(&mut nodes, ROOT, "a", real(10)), 10);
        let elsewhere = Key::Real(Identity { device: 8, inode: 11, born: (0, 0) });
        let other = found(&mut nodes, ROOT, "b", elsewhere);
        assert!(other >= OURS);
        // A number that is used again while the kernel still knows the old file.
        let again = Key::Real(Identity { device: 7, inode: 10, born: (5, 0) });
        assert!(found(&mut nodes, ROOT, "a", again) > other);
        assert_eq!(path(&nodes, 10), None);
        assert!(found(&mut nodes, ROOT, "one", real(1)) >= OURS);
    }

    #[test]
    fn links_are_one_node() {
        let mut nodes = nodes();
        assert_eq!(found(&mut nodes, ROOT, "a", real(10)), 10);
        assert_eq!(found(&mut nodes, ROOT, "b", real(10)), 10);
        assert_eq!(path(&nodes, 10).unwrap(), "/s/b");
        nodes.removed(ROOT, OsStr::new("b"), None);
        assert_eq!(path(&nodes, 10).unwrap(), "/s/a");
        assert!(!nodes.forget(10, 1));
        assert!(nodes.forget(10, 1));
        assert_eq!((nodes.named(ROOT, OsStr::new("a")), nodes.len()), (None, 1));
    }

    #[test]
    fn paths_follow_renames_of_directories() {
        let mut nodes = nodes();
        let directory = found(&mut nodes, ROOT, "d", real(20));
        let file = found(&mut nodes, directory, "f", real(21));
        let other = found(&mut nodes, ROOT, "e", real(22));
        nodes.renamed((ROOT, OsStr::new("d")), (other, OsStr::new("x")));
        assert_eq!(path(&nodes, file).unwrap(), "/s/e/x/f");
        let last = found(&mut nodes, ROOT, "g", real(23));
        nodes.exchanged((ROOT, OsStr::new("g")), (directory, OsStr::new("f")));
        assert_eq!(path(&nodes, file).unwrap(), "/s/g");
        assert_eq!(path(&nodes, last).unwrap(), "/s/e/x/f");
    }

    #[test]
    fn a_file_that_comes_home_stays_the_same_node() {
        let mut nodes = nodes();
        let held = Key::Virtual(identity(99));
        let id = found(&mut nodes, ROOT, "f", held);
        assert!(id >= OURS);
        let on_source = nodes.found((ROOT, OsStr::new("f")), real(30), Some(identity(30)), 1);
        assert_eq!(on_source, NodeLookup { id, changed: true });
        // It is removed again, and the source still has the earlier file.
        let away = nodes.found((ROOT, OsStr::new("f")), held, Some(identity(30)), 1);
        assert_eq!(away, NodeLookup { id, changed: true });
        // Its bytes are elsewhere, although it is shown as what the source has.
        let is_elsewhere = found(&mut nodes, ROOT, "c", real(50));
        nodes.get_mut(is_elsewhere).unwrap().is_elsewhere = true;
        let on_source = nodes.found((ROOT, OsStr::new("c")), real(51), Some(identity(51)), 1);
        assert_eq!(on_source, NodeLookup { id: is_elsewhere, changed: true });
        assert!(!nodes.may_change(is_elsewhere));
        // What another program put there is another file.
        let file = found(&mut nodes, ROOT, "g", real(40));
        assert_ne!(found(&mut nodes, ROOT, "g", real(41)), file);
    }
}
