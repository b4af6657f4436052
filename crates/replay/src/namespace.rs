//! [`Namespace`]: a model of names, files, links, sizes and positions, driven by the recorded
//! calls.
//!
//! It sees the records twice, in the same order. In the first pass it *learns*: what a call finds
//! and no call before it has made existed before the recording. In the second pass it starts from
//! that, and what is still not explained is established right before the call that shows it
//! ([`Fix`]).

mod links;
mod notices;
mod observe;
mod space;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use striate_recording::ProcessIndex;
use striate_trace::TracedFile;

pub(crate) use self::notices::descriptor_shown;
use self::space::Space;
use crate::fix::Fix;

/// A file or directory, whatever names it has.
pub(crate) type NodeId = usize;

/// An open file: the process that opened it, and its number there. The second is the process's
/// number, which is another one's if the opener is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    pub(crate) owner: ProcessIndex,
    pub(crate) opener: u32,
    pub(crate) number: u64,
}

/// What existed before the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Initial {
    pub(crate) path: PathBuf,
    pub(crate) file_type: FileType,
    /// Its permissions, as far as they were recorded.
    pub(crate) mode: Option<u32>,
}

impl Initial {
    /// Bytes that are in it.
    pub(crate) const fn bytes(&self) -> u64 {
        match self.file_type {
            FileType::File(size) => size,
            _ => 0,
        }
    }
}

/// What something was before the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileType {
    Directory,
    /// A file of a size.
    File(u64),
    /// A symbolic link that leads there.
    Link(PathBuf),
}

#[derive(Clone, Debug, Default)]
struct Node {
    directory: bool,
    /// Where it leads, if it is a symbolic link.
    link: Option<Link>,
    /// Permissions that it had before the recording, if it existed and they were recorded.
    mode: Option<u32>,
    /// As far as known.
    size: Option<u64>,
    /// Whether that is only as far as it was read: it may be larger.
    bound: bool,
    /// Where it was before the recording, and its size then.
    first: Option<(PathBuf, Option<u64>)>,
    /// How many names it has.
    names: u32,
    /// Whether recorded calls have changed its size.
    touched: bool,
    /// When the last call that changed it, so far, ended.
    until: u64,
    /// Where it was before the recording, if the `open` that seems to have made it has found it.
    assumed: Option<PathBuf>,
}

/// Where a symbolic link leads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    to: PathBuf,
    /// Whether that is known; else it was made up.
    known: bool,
}

/// What a name stands for, and until when a call was changing that.
#[derive(Clone, Copy, Debug)]
struct Name {
    node: Option<NodeId>,
    until: u64,
}

/// What a call is about: files and names that order it among others.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallSubjects {
    pub(crate) node: Option<NodeId>,
    pub(crate) other: Option<NodeId>,
    /// The names that the recorded ones lead to by symbolic links, if these are others.
    pub(crate) path: Option<PathBuf>,
    pub(crate) to: Option<PathBuf>,
}

/// The longest transfer that the kernel makes.
const MOST_TRANSFER: u64 = 0x7fff_f000;

/// What a recording needs on storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StorageNeed {
    /// Bytes at a time, at most, on top of what existed before.
    pub(crate) written: u64,
    /// The file with most of them, and how many.
    pub(crate) largest: (PathBuf, u64),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Namespace {
    learning: bool,
    /// Whether symbolic links are followed: a store has none.
    follows: bool,
    /// Whether there is any.
    has_links: bool,
    names: BTreeMap<PathBuf, Name>,
    nodes: Vec<Node>,
    open: HashMap<FileId, NodeId>,
    /// Names that something is below.
    directories: HashSet<PathBuf>,
    /// The first name of a `link`, whose second comes next: in traces of versions 1 to 4.
    linking: HashMap<(ProcessIndex, u32), PathBuf>,
    /// Positions of open files, and until when a call was moving them.
    positions: HashMap<FileId, (u64, u64)>,
    /// What files take on storage, while it learns.
    space: Space,
    /// Corrections that the current call needs.
    fixes: Vec<Fix>,
}

impl Namespace {
    /// One that learns.
    pub(crate) fn learning(follows: bool) -> Self {
        Self { learning: true, follows, ..Self::default() }
    }

    /// What existed before, parents before what is in them; and a namespace of that, which learns
    /// no more.
    pub(crate) fn learned(self) -> (Vec<Initial>, Self, StorageNeed) {
        let need = self.need();
        let Self { directories, follows, nodes, .. } = self;
        let mut namespace = Self { follows, directories, ..Self::default() };
        let mut found = BTreeMap::new();
        for node in nodes {
            if let Some((path, size)) = node.first {
                let file_type = match node.link {
                    Some(link) => FileType::Link(link.to),
                    None if node.directory => FileType::Directory,
                    None => FileType::File(size.unwrap_or(0)),
                };
                found.insert(path.clone(), Initial { path, file_type, mode: node.mode });
            }
        }
        let initial = links::in_place(found);
        for Initial { path, file_type, .. } in &initial {
            let node = match file_type {
                FileType::Directory => Node { directory: true, ..Node::default() },
                FileType::File(size) => Node { size: Some(*size), ..Node::default() },
                FileType::Link(to) => {
                    namespace.has_links = true;
                    let link = Some(Link { to: to.clone(), known: true });
                    Node { link, ..Node::default() }
                }
            };
            namespace.nodes.push(node);
            namespace
                .names
                .insert(path.clone(), Name { node: Some(namespace.nodes.len() - 1), until: 0 });
        }
        (initial, namespace, need)
    }

    /// What is written, besides the files that were there before.
    fn need(&self) -> StorageNeed {
        let (node, most) = self.space.largest();
        let named = self.names.iter().find(|(_, name)| name.node == Some(node));
        let largest = named.map(|(path, _)| path.clone()).unwrap_or_default();
        StorageNeed { written: self.space.most(), largest: (largest, most) }
    }

    /// What a name stands for.
    pub(crate) fn node(&self, path: &Path) -> Option<NodeId> {
        self.names.get(path)?.node
    }

    fn new_node(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn set_name(&mut self, path: &Path, node: Option<NodeId>, until: u64) {
        if let Some(node) = node {
            self.nodes[node].names += 1;
        }
        let before = self.names.insert(path.to_path_buf(), Name { node, until });
        if let Some(before) = before.and_then(|before| before.node) {
            self.lost_name(before);
        }
    }

    /// A file has lost a name. Its space is free if it has no other name and is not open.
    fn lost_name(&mut self, node: NodeId) {
        let names = &mut self.nodes[node].names;
        *names = names.saturating_sub(1);
        if *names == 0 && self.learning && !self.open.values().any(|open| *open == node) {
            self.space.gone(node);
        }
    }

    /// Bytes are written to a file from an offset on, or at its end.
    fn takes(&mut self, node: NodeId, offset: Option<u64>, length: u64) {
        if !self.learning {
            return;
        }
        let about = &self.nodes[node];
        let at = offset.or(about.size).unwrap_or(0);
        let end = at.saturating_add(length.min(MOST_TRANSFER));
        // What was there before is counted already.
        let there = about.first.as_ref().and_then(|(_, size)| *size).unwrap_or(0);
        let at = at.max(there);
        self.space.takes(node, at, end.saturating_sub(at));
    }

    /// Where something that no call has made was before the recording, if it was: in a directory
    /// that was there, under the name that it had then.
    fn first_path(&self, path: &Path) -> Option<PathBuf> {
        if !self.learning || self.names.contains_key(path) {
            return None;
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Some(path.to_path_buf());
        };
        let parent = self.node(parent)?;
        self.nodes[parent].first.as_ref().map(|(parent, _)| parent.join(name))
    }

    /// The directories above a name exist, and are directories.
    fn beneath(&mut self, path: &Path) {
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        for directory in above.into_iter().rev() {
            match self.names.get(directory).and_then(|name| name.node) {
                Some(node) if self.nodes[node].directory => {}
                Some(node) => self.nodes[node].directory = true,
                None => {
                    let first = self.first_path(directory).map(|path| (path, None));
                    if first.is_none() {
                        self.fixes.push(Fix::Directory(directory.to_path_buf()));
                    }
                    let node = self.new_node(Node { directory: true, first, ..Node::default() });
                    self.set_name(directory, Some(node), 0);
                }
            }
            if self.learning && !self.directories.contains(directory) {
                self.directories.insert(directory.to_path_buf());
            }
        }
    }

    /// A call shows that a name exists, with this size if it is a file. Returns the corrections
    /// that are needed.
    fn there(&mut self, path: &Path, size: Option<u64>, start: u64) -> (NodeId, Option<Fix>) {
        self.beneath(path);
        let known = self.names.get(path).copied();
        if let Some(Name { node: Some(id), .. }) = known {
            return (id, self.has_size(id, path, size, start));
        }
        let directory = self.directories.contains(path);
        if let Some(first) = self.first_path(path) {
            let first = Some((first, size));
            let node = self.new_node(Node { directory, size, first, ..Node::default() });
            self.set_name(path, Some(node), 0);
            return (node, None);
        }
        let late = known.is_some_and(|name| name.until > start);
        let node = self.new_node(Node { directory, size, ..Node::default() });
        self.set_name(path, Some(node), 0);
        let path = path.to_path_buf();
        let fix = if directory { Fix::Directory(path) } else { Fix::File(path, size.unwrap_or(0)) };
        (node, (!late).then_some(fix))
    }

    /// A call shows that a directory exists.
    fn there_directory(&mut self, path: &Path, start: u64) -> (NodeId, Option<Fix>) {
        if !self.directories.contains(path) {
            self.directories.insert(path.to_path_buf());
        }
        let (node, fix) = self.there(path, None, start);
        self.nodes[node].directory = true;
        (node, fix)
    }

    /// A call shows that something which should be a directory is none: the name itself, or the one
    /// above it.
    fn no_directory(&mut self, path: &Path, itself: bool, start: u64) -> Option<Fix> {
        let path = if itself { Some(path) } else { path.parent() }?;
        match self.names.get(path) {
            None => self.there(path, None, start).1,
            Some(_) => None,
        }
    }

    /// A call shows permissions.
    fn has_mode(&mut self, node: NodeId, mode: u32) {
        let learning = self.learning;
        let node = &mut self.nodes[node];
        if learning && node.first.is_some() && node.mode.is_none() {
            node.mode = Some(mode & 0o7777);
        }
    }

    /// A call shows the size of a file.
    fn has_size(&mut self, id: NodeId, path: &Path, size: Option<u64>, start: u64) -> Option<Fix> {
        let learning = self.learning;
        let node = &mut self.nodes[id];
        let size = size.filter(|_| !node.directory && node.link.is_none())?;
        if learning
            && size > 0
            && let Some(path) = node.assumed.take()
        {
            // It existed: no call has written to it since it was opened.
            (node.first, node.size, node.touched) = (Some((path, Some(size))), Some(size), false);
            return None;
        }
        if let Some((_, first)) = &mut node.first
            && !node.touched
            && learning
            && (first.is_none() || node.bound && *first <= Some(size))
        {
            (*first, node.size, node.bound) = (Some(size), Some(size), false);
            return None;
        }
        // A call that is not over yet may explain it.
        if node.size == Some(size) || node.until > start {
            return None;
        }
        let was = node.size.replace(size);
        if was.is_some_and(|was| was < size) {
            // What is missing is written before the call.
            let from = was.unwrap_or(0);
            if learning {
                self.space.takes(id, from, size - from);
            }
        }
        (was.is_some() || !learning).then(|| Fix::Size(path.to_path_buf(), size))
    }

    /// A call has read a file up to an offset, so it is as large at least.
    fn has_been_read(&mut self, id: NodeId, path: &Path, end: u64, start: u64) -> Option<Fix> {
        let (learning, node) = (self.learning, &mut self.nodes[id]);
        if node.size.is_some_and(|size| size >= end) {
            return None;
        }
        if let Some((_, first)) = &mut node.first
            && learning
            && !node.touched
            && (first.is_none() || node.bound)
        {
            (*first, node.size, node.bound) = (Some(end), Some(end), true);
            return None;
        }
        self.has_size(id, path, Some(end), start)
    }

    /// A call shows that a name does not exist.
    fn absent(&mut self, path: &Path, start: u64) -> Option<Fix> {
        // Its parent is not a file, or the error would be another.
        for above in path.ancestors().skip(1) {
            if let Some(node) = self.node(above) {
                self.nodes[node].directory = true;
            }
        }
        match self.names.get(path).copied() {
            Some(Name { node: None, .. }) => None,
            Some(Name { node: Some(_), until }) if until > start => None,
            Some(_) => {
                self.set_name(path, None, 0);
                Some(Fix::Nothing(path.to_path_buf()))
            }
            None => {
                self.set_name(path, None, 0);
                None
            }
        }
    }

    fn grows(&mut self, node: NodeId, to: u64, until: u64) {
        let node = &mut self.nodes[node];
        node.touched = true;
        node.assumed = None;
        node.until = node.until.max(until);
        node.size = Some(node.size.unwrap_or(0).max(to));
    }

    fn resized(&mut self, id: NodeId, to: Option<u64>, until: u64) {
        let node = &mut self.nodes[id];
        node.touched = true;
        node.assumed = None;
        node.until = node.until.max(until);
        node.size = to;
        if let (Some(to), true) = (to, self.learning) {
            self.space.ends(id, to);
        }
    }

    /// What an open file is, also one that was opened before the recording began.
    fn opened(&mut self, id: FileId, file: &TracedFile) -> NodeId {
        if let Some(node) = self.open.get(&id) {
            return *node;
        }
        let node = match self.names.get(&file.path) {
            Some(Name { node: Some(node), .. }) => *node,
            // It was opened by a name that no longer exists.
            Some(Name { node: None, .. }) => self.new_node(Node::default()),
            None => {
                let path = self.resolve(&file.path, true);
                self.there(&path, None, 0).0
            }
        };
        self.open.insert(id, node);
        node
    }
}
