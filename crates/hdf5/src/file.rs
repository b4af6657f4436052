//! [`File`]: an HDF5 file that is read.
//!
//! Operations return plain data of [`crate::model`]; nothing is read ahead of being asked for, and
//! nothing is kept but a bounded number of blocks and decoded structures. Each operation is bounded
//! by the length of the file, see [`crate::walk`].

use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use crate::blocks::Blocks;
use crate::caches::Caches;
use crate::dataset::{self, Dataset};
use crate::model::{
    Address, Attribute, Datatype, Link, LinkTarget, MessageKind, Name, Object, ObjectKind,
    Superblock,
};
use crate::used_space::UsedSpace;
use crate::walk::Walk;
use crate::{
    Error, Reason, Result, Source, Structure, attributes, group, object_header, superblock,
};

/// The most soft links that a path may lead through.
const MOST_SOFT_LINKS: u32 = 64;
/// The most names of a path, with those of soft links.
const MOST_NAMES: u32 = 10_000;

/// An HDF5 file.
pub struct File<S> {
    blocks: Blocks<S>,
    superblock: Superblock,
    caches: Caches,
    /// Metadata that was read, if that is recorded.
    used: Option<Mutex<UsedSpace>>,
}

impl<S: fmt::Debug> fmt::Debug for File<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("source", self.blocks.source())
            .field("superblock", &self.superblock)
            .finish_non_exhaustive()
    }
}

impl<S: Source> File<S> {
    /// Opens a file: finds its superblock.
    pub fn open(source: S) -> Result<Self> {
        Self::open_with(source, None)
    }

    /// Opens a file, and notes from then on where the metadata is that is read, for
    /// [`File::used_space`].
    pub fn open_recording(source: S) -> Result<Self> {
        Self::open_with(source, Some(Mutex::default()))
    }

    fn open_with(source: S, used: Option<Mutex<UsedSpace>>) -> Result<Self> {
        let blocks = Blocks::new(source).map_err(|error| Error::of(Structure::File, error))?;
        let superblock = superblock::find(&blocks)?;
        if let Some(used) = &used {
            let bytes = superblock::size(&superblock);
            let location = superblock.location;
            let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
            used.add(location..location + bytes);
        }
        let file = Self { blocks, superblock, caches: Caches::default(), used };
        file.check_drivers()?;
        Ok(file)
    }

    /// Metadata that was read so far, of a file that records it.
    pub(crate) fn recorded(&self) -> UsedSpace {
        let lock =
            |used: &Mutex<UsedSpace>| used.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.used.as_ref().map(lock).unwrap_or_default()
    }

    pub(crate) fn walk(&self) -> Walk<'_> {
        Walk::new(&self.blocks, &self.superblock, &self.caches, self.used.as_ref())
    }

    /// The superblock.
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// What the file is read from.
    pub const fn source(&self) -> &S {
        self.blocks.source()
    }

    /// Files that consist of several, and files whose metadata is not in its places.
    fn check_drivers(&self) -> Result<()> {
        let unsupported = |address, what: String| {
            Err(Error::at(Structure::Superblock, address, Reason::Unsupported(what)))
        };
        let walk = self.walk();
        if let Some(address) = self.superblock.driver_information {
            let bytes = walk.read(Structure::Superblock, address, 16)?;
            let name = Name::from(&bytes[8..]);
            return unsupported(address, format!("a file of several, of driver \"{name}\","));
        }
        let Some(extension) = self.superblock.extension else {
            return Ok(());
        };
        let header = object_header::read(&walk, extension)?;
        if let Some(message) = header.message(MessageKind::DRIVER_INFORMATION) {
            let name = Name::from(message.body.get(1..9).unwrap_or_default());
            return unsupported(extension, format!("a file of several, of driver \"{name}\","));
        }
        match header.message(MessageKind::CACHE_IMAGE) {
            Some(_) => unsupported(extension, "a metadata cache image".into()),
            None => Ok(()),
        }
    }

    /// The root group.
    pub fn root(&self) -> Result<Object> {
        self.object(self.superblock.root.header)
    }

    /// The object whose header is at an address.
    pub fn object(&self, address: Address) -> Result<Object> {
        object_header::object(&self.walk(), address)
    }

    /// Gives back the memory of an object, for that of another one.
    pub(crate) fn reuse(&self, object: Object) {
        self.caches.keep_room(object.header.messages);
    }

    /// The links of a group: in the order of creation if that is tracked, else by name.
    pub fn links(&self, group: &Object) -> Result<Vec<Link>> {
        group::links(&self.walk(), group)
    }

    /// About how many links a group has, without reading them: what the group says itself. Of an
    /// old group it is 0.
    pub fn link_count(&self, group: &Object) -> Result<u64> {
        group::count(&self.walk(), group)
    }

    /// The link of a group with a name, which has no slashes.
    pub fn link(&self, group: &Object, name: &[u8]) -> Result<Option<Link>> {
        group::link(&self.walk(), group, name)
    }

    /// The attributes of an object: in the order of creation if that is tracked, else by name.
    pub fn attributes(&self, object: &Object) -> Result<Vec<Attribute>> {
        attributes::attributes(&self.walk(), object)
    }

    /// The attributes of an object in the order of creation if that is tracked, else as they are
    /// stored: the order in which netCDF numbers them.
    pub fn attributes_as_stored(&self, object: &Object) -> Result<Vec<Attribute>> {
        Ok(attributes::in_stored_order(&self.walk(), object)?.0)
    }

    /// The same without attributes of one name, if they are not needed because there is one of
    /// another name.
    pub(crate) fn attributes_unless(
        &self,
        object: &Object,
        unneeded: &[u8],
        instead: &[u8],
    ) -> Result<Vec<Attribute>> {
        let walk = self.walk();
        let has_instead = attributes::has_message(&walk, object, instead);
        let unwanted = |name: &[u8]| has_instead && name == unneeded;
        Ok(attributes::in_stored_order_without(&walk, object, &unwanted)?.0)
    }

    /// What the header of a dataset says.
    pub fn dataset(&self, object: &Object) -> Result<Dataset> {
        dataset::read(&self.walk(), object)
    }

    /// The type that a committed datatype is.
    pub fn committed_datatype(&self, object: &Object) -> Result<Datatype> {
        crate::shared::committed(&self.walk(), object.address)
    }

    /// The object at a path, from a group or, if the path begins with a slash, from the root.
    ///
    /// Soft links are followed; an external link is [`Reason::InAnotherFile`].
    pub fn lookup(&self, from: &Object, path: &[u8]) -> Result<Object> {
        self.follow(from, path, &mut Steps::default())
    }

    /// The object that a link of a group leads to.
    pub fn target(&self, group: &Object, link: &Link) -> Result<Object> {
        self.follow_link(group, link, &mut Steps::default())
    }

    fn follow(&self, from: &Object, path: &[u8], steps: &mut Steps) -> Result<Object> {
        let mut object = if path.first() == Some(&b'/') { self.root()? } else { from.clone() };
        for name in path.split(|&byte| byte == b'/') {
            if name.is_empty() || name == b"." {
                continue;
            }
            steps.name()?;
            let absent = || Error::of(Structure::Group, Reason::NotFound(Name::from(path)));
            if object.kind != ObjectKind::Group {
                return Err(absent());
            }
            let link = self.link(&object, name)?.ok_or_else(absent)?;
            object = self.follow_link(&object, &link, steps)?;
        }
        Ok(object)
    }

    fn follow_link(&self, group: &Object, link: &Link, steps: &mut Steps) -> Result<Object> {
        match &link.target {
            LinkTarget::Hard(address) => self.object(*address),
            LinkTarget::Soft(path) => {
                steps.soft_link()?;
                self.follow(group, path.as_bytes(), steps)
            }
            LinkTarget::External { file, path } => {
                let (file, path) = (file.clone(), path.clone());
                Err(Error::of(Structure::Link, Reason::InAnotherFile { file, path }))
            }
            LinkTarget::UserDefined { class, .. } => {
                let what = format!("a user-defined link of class {class}");
                Err(Error::of(Structure::Link, Reason::Unsupported(what)))
            }
        }
    }

    /// Visits the objects that hard links lead to from the root, each once and parents first, with
    /// the path by which it was found. Other links are not followed.
    pub fn visit(
        &self,
        visitor: &mut dyn FnMut(&Name, &Object) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let root = self.root()?;
        if visitor(&Name::from("/"), &root)?.is_break() {
            return Ok(());
        }
        let mut seen = HashSet::from([root.address]);
        // The groups from the root down to the present one: their path, and links not yet visited.
        let mut path = Vec::new();
        let mut groups = vec![(path.len(), self.links(&root)?.into_iter())];
        while let Some((length, links)) = groups.last_mut() {
            path.truncate(*length);
            let Some(link) = links.next() else {
                groups.pop();
                continue;
            };
            let LinkTarget::Hard(address) = link.target else { continue };
            if !seen.insert(address) {
                continue;
            }
            path.push(b'/');
            path.extend_from_slice(link.name.as_bytes());
            let object = self.object(address)?;
            if visitor(&Name::from(path.as_slice()), &object)?.is_break() {
                return Ok(());
            }
            if object.kind == ObjectKind::Group {
                groups.push((path.len(), self.links(&object)?.into_iter()));
            }
        }
        Ok(())
    }
}

/// How far a path has led already.
#[derive(Debug, Default)]
struct Steps {
    names: u32,
    soft_links: u32,
}

impl Steps {
    fn name(&mut self) -> Result<()> {
        self.names += 1;
        Self::check(self.names, MOST_NAMES)
    }

    fn soft_link(&mut self) -> Result<()> {
        self.soft_links += 1;
        Self::check(self.soft_links, MOST_SOFT_LINKS)
    }

    fn check(steps: u32, most: u32) -> Result<()> {
        if steps > most { Err(Error::of(Structure::Link, Reason::Cycle)) } else { Ok(()) }
    }
}
