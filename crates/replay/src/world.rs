//! [`World`]: which names there are, which file each stands for and how large it is, as the recorded calls tell.
//!
//! It goes through the records twice, in the same order. The first time it *learns*: whatever a call finds that no
//! call before it has made was there before the recording. The second time it knows that, and what is
//! still not explained is made good ([`Fix`]).

mod observe;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use striate_recording::ProcessIndex;
use striate_stack::trace::TracedFile;

use crate::fix::Fix;

/// A file or directory, whatever names it has.
pub(crate) type NodeId = usize;

/// An open file: the process that opened it, and its number there. The second is the process's number, which is
/// another one's if it is not known who opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    pub(crate) owner: ProcessIndex,
    pub(crate) opener: u32,
    pub(crate) number: u64,
}

/// What was there before the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Initial {
    pub(crate) path: PathBuf,
    pub(crate) directory: bool,
    pub(crate) size: u64,
}

#[derive(Clone, Debug, Default)]
struct Node {
    directory: bool,
    /// As far as known.
    size: Option<u64>,
    /// Where it was before the recording, and its size then.
    first: Option<(PathBuf, Option<u64>)>,
    /// Whether recorded calls have changed its size.
    touched: bool,
    /// When the last call that changed it, so far, ended.
    until: u64,
}

/// What a name stands for, and until when a call was changing that.
#[derive(Clone, Copy, Debug)]
struct Name {
    node: Option<NodeId>,
    until: u64,
}

/// What a call is about: files and names that order it among others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About {
    pub(crate) node: Option<NodeId>,
    pub(crate) other: Option<NodeId>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct World {
    learning: bool,
    names: BTreeMap<PathBuf, Name>,
    nodes: Vec<Node>,
    open: HashMap<FileId, NodeId>,
    /// Names that something is below.
    directories: HashSet<PathBuf>,
    /// The first name of a `link`, whose second comes next.
    links: HashMap<(ProcessIndex, u32), PathBuf>,
    /// Positions of open files, and until when a call was moving them.
    positions: HashMap<FileId, (u64, u64)>,
    /// What has to be made good for the call that is taken in.
    fixes: Vec<Fix>,
}

impl World {
    /// One that learns.
    pub(crate) fn learning() -> Self {
        Self { learning: true, ..Self::default() }
    }

    /// What was there before, parents before what is in them; and a world of that, which learns no more.
    pub(crate) fn learned(self) -> (Vec<Initial>, Self) {
        let mut world = Self { directories: self.directories, ..Self::default() };
        let mut initial = BTreeMap::new();
        for node in self.nodes {
            if let Some((path, size)) = node.first {
                initial.insert(path, (node.directory, size.unwrap_or(0)));
            }
        }
        let initial: Vec<_> = initial
            .into_iter()
            .map(|(path, (directory, size))| Initial { path, directory, size })
            .collect();
        for Initial { path, directory, size } in &initial {
            let size = (!directory).then_some(*size);
            world.nodes.push(Node { directory: *directory, size, ..Node::default() });
            world.names.insert(path.clone(), Name { node: Some(world.nodes.len() - 1), until: 0 });
        }
        (initial, world)
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
        self.names.insert(path.to_path_buf(), Name { node, until });
    }

    /// Where something that nobody has made was before the recording, if it was: in a directory that was there,
    /// under the name that it had then.
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

    /// The directories above a name are there, and are directories.
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

    /// A call shows that a name is there, of this size if it is a file. Says what has to be made good.
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

    /// A call shows the size of a file.
    fn has_size(&mut self, id: NodeId, path: &Path, size: Option<u64>, start: u64) -> Option<Fix> {
        let learning = self.learning;
        let node = &mut self.nodes[id];
        let size = size.filter(|_| !node.directory)?;
        if let Some((_, first)) = &mut node.first
            && !node.touched
            && learning
            && first.is_none()
        {
            *first = Some(size);
        }
        // A call that is not over yet may explain it.
        if node.size == Some(size) || node.until > start {
            return None;
        }
        let was = node.size.replace(size);
        (was.is_some() || !learning).then(|| Fix::Size(path.to_path_buf(), size))
    }

    /// A call shows that a name is not there.
    fn absent(&mut self, path: &Path, start: u64) -> Option<Fix> {
        // What is above it is no file, or the error would be another.
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
        node.until = node.until.max(until);
        node.size = Some(node.size.unwrap_or(0).max(to));
    }

    fn resized(&mut self, node: NodeId, to: Option<u64>, until: u64) {
        let node = &mut self.nodes[node];
        node.touched = true;
        node.until = node.until.max(until);
        node.size = to;
    }

    /// What an open file is, also one that was opened before the recording began.
    fn opened(&mut self, id: FileId, file: &TracedFile) -> NodeId {
        if let Some(node) = self.open.get(&id) {
            return *node;
        }
        let node = match self.names.get(&file.path) {
            Some(Name { node: Some(node), .. }) => *node,
            // It was opened by a name that is not there any more.
            Some(Name { node: None, .. }) => self.new_node(Node::default()),
            None => self.there(&file.path, None, 0).0,
        };
        self.open.insert(id, node);
        node
    }
}
