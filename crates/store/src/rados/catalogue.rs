//! The catalogue of a namespace: names of files, in the map of one object.
//!
//! Entries `f/NAME` have the version and the identity of the file, entries `d/ID` stand for files
//! whose objects are being removed. As all of them are in one object, a name is created, moved or
//! removed by one operation with assertions: it happens as a whole, and another client's change in
//! between makes it start again.

use std::ffi::{CStr, CString};
use std::num::NonZeroU64;
use std::sync::Arc;

use nix::errno::Errno;

use super::attributes::HeadAttributes;
use super::error::RadosError;
use super::head::{ATTEMPTS, FileId, Head};
use super::library::cluster::PoolHandle;
use super::library::operation::{ReadOperation, WriteOperation};
use super::options::RadosOptions;
use super::transfer::Window;

/// The object.
const OBJECT: &str = "striate.catalogue";
/// What entries of files begin with.
const FILES: &str = "f/";
/// What entries of files without a name begin with.
const DEAD: &str = "d/";

/// Entries of one page, and heads asked for at a time.
const PAGE: u64 = 1000;
const HEADS: usize = 64;

/// What a listing says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RadosFileInfo {
    /// Its name in the namespace.
    pub name: String,
    /// What its objects are called after.
    pub id: String,
    /// Bytes of a strip.
    pub strip: u64,
    /// Its length.
    pub size: u64,
    /// When it was created, in ms since 1970.
    pub created_ms: u64,
}

impl RadosFileInfo {
    pub(super) fn new(name: &str, id: &FileId, found: &HeadAttributes) -> Self {
        let strip = found.strip.get();
        let (size, created_ms) = (found.size, found.created_ms);
        Self { name: name.to_owned(), id: id.to_string(), strip, size, created_ms }
    }
}

/// The catalogue of a namespace of a pool.
#[derive(Debug)]
pub(super) struct Catalogue<'p> {
    pub(super) pool: &'p Arc<PoolHandle>,
    pub(super) options: &'p RadosOptions,
}

/// Keys and values, and whether there are more.
type Entries = (Vec<(String, Vec<u8>)>, bool);

fn key(kind: &str, name: &str) -> Result<CString, RadosError> {
    CString::new(format!("{kind}{name}")).map_err(|_| RadosError::System(Errno::EINVAL.into()))
}

fn value(id: &FileId) -> Vec<u8> {
    format!("1 {id}").into_bytes()
}

fn decode(name: &str, value: &[u8]) -> Result<FileId, RadosError> {
    let text = std::str::from_utf8(value).ok();
    text.and_then(|text| text.strip_prefix("1 ")).and_then(FileId::parse).ok_or_else(|| {
        RadosError::Damaged {
            object: OBJECT.to_owned(),
            what: format!("the entry of '{name}' is not one of version 1"),
        }
    })
}

impl Catalogue<'_> {
    fn failed(&self, errno: Errno) -> RadosError {
        RadosError::new(errno, self.options.patience)
    }

    /// Entries whose keys begin with `prefix`, after the key `after`, and whether there are more.
    fn entries(&self, prefix: &CStr, after: &CStr, most: u64) -> Result<Entries, RadosError> {
        let operation = ReadOperation::new(self.pool).entries(prefix, after, most);
        match operation.run(self.pool, OBJECT) {
            Ok(operation) => Ok(operation.into_entries()),
            Err(Errno::ENOENT) => Ok((Vec::new(), false)),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// The file of this name.
    pub(super) fn find(&self, name: &str) -> Result<Option<FileId>, RadosError> {
        let key = key(FILES, name)?;
        // Of all keys that begin with it, it is the first.
        let (entries, _) = self.entries(&key, c"", 1)?;
        let found = entries.first().filter(|(found, _)| found.as_bytes() == key.to_bytes());
        found.map(|(_, value)| decode(name, value)).transpose()
    }

    /// Changes the catalogue; `false` if another client came before.
    fn change(&self, operation: impl Fn() -> WriteOperation) -> Result<bool, RadosError> {
        let run = || operation().run(self.pool, OBJECT);
        let outcome = match run() {
            Err(Errno::ENOENT) => {
                let creation = WriteOperation::new(self.pool).create(false);
                creation.run(self.pool, OBJECT).and_then(|()| run())
            }
            other => other,
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(Errno::ECANCELED) => Ok(false),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// Tries until no other client comes before.
    fn until_done<T>(
        mut attempt: impl FnMut() -> Result<Option<T>, RadosError>,
    ) -> Result<T, RadosError> {
        for _ in 0..ATTEMPTS {
            if let Some(done) = attempt()? {
                return Ok(done);
            }
        }
        Err(RadosError::Contended(ATTEMPTS))
    }

    /// The head of the file of this name.
    pub(super) fn open(&self, name: &str) -> Result<Head, RadosError> {
        Self::until_done(|| {
            let id = self.find(name)?.ok_or(RadosError::NoFile)?;
            match Head::open(self.pool, self.options, id.clone()) {
                // It was removed or replaced meanwhile; or it lost its head, and no other client
                // will change that.
                Err(RadosError::NoFile) if self.find(name)? != Some(id.clone()) => Ok(None),
                Err(RadosError::NoFile) => Err(RadosError::Damaged {
                    object: id.head(),
                    what: format!("'{name}' is in the catalogue, but this object is missing"),
                }),
                opened => opened.map(Some),
            }
        })
    }

    /// Makes a file, or opens it if it is there and not `exclusive`.
    pub(super) fn create(
        &self,
        name: &str,
        strip: NonZeroU64,
        exclusive: bool,
    ) -> Result<Head, RadosError> {
        Self::until_done(|| {
            if self.find(name)?.is_some() {
                return match self.open(name) {
                    _ if exclusive => Err(RadosError::Exists),
                    Err(RadosError::NoFile) => Ok(None),
                    opened => opened.map(Some),
                };
            }
            let key = key(FILES, name)?;
            let head = Head::create(self.pool, self.options, strip)?;
            let named = self.change(|| {
                let operation = WriteOperation::new(self.pool).assert_exists();
                operation.expect_entry(&key, b"").set_entry(&key, &value(&head.id))
            });
            match named {
                Ok(true) => Ok(Some(head)),
                other => {
                    let buried = Head::bury(self.pool, self.options, head.id.clone());
                    other.and_then(|_| buried.map(|()| None))
                }
            }
        })
    }

    /// Removes a file.
    pub(super) fn remove(&self, name: &str) -> Result<(), RadosError> {
        let key_of_name = key(FILES, name)?;
        let id = Self::until_done(|| {
            let id = self.find(name)?.ok_or(RadosError::NoFile)?;
            let dead = key(DEAD, &id.0)?;
            let removed = self.change(|| {
                let operation = WriteOperation::new(self.pool).assert_exists();
                let operation = operation.expect_entry(&key_of_name, &value(&id));
                operation.remove_entry(&key_of_name).set_entry(&dead, b"1")
            })?;
            Ok(removed.then_some(id))
        })?;
        self.bury(id)
    }

    /// Gives a file another name; a file of that name is replaced, or an error.
    pub(super) fn rename(&self, from: &str, to: &str, replace: bool) -> Result<(), RadosError> {
        let (old, new) = (key(FILES, from)?, key(FILES, to)?);
        let replaced = Self::until_done(|| {
            let id = self.find(from)?.ok_or(RadosError::NoFile)?;
            let replaced = self.find(to)?;
            if from == to {
                return Ok(Some(None));
            }
            if replaced.is_some() && !replace {
                return Err(RadosError::Exists);
            }
            let dead = replaced.as_ref().map(|id| key(DEAD, &id.0)).transpose()?;
            let renamed = self.change(|| {
                let before = replaced.as_ref().map(value).unwrap_or_default();
                let operation = WriteOperation::new(self.pool).assert_exists();
                let operation =
                    operation.expect_entry(&old, &value(&id)).expect_entry(&new, &before);
                let operation = operation.remove_entry(&old).set_entry(&new, &value(&id));
                match &dead {
                    Some(dead) => operation.set_entry(dead, b"1"),
                    None => operation,
                }
            })?;
            Ok(renamed.then_some(replaced))
        })?;
        // The renaming is done, whether the objects of the other file can be removed now or by
        // another client later.
        if let Some(id) = replaced {
            let _ = self.bury(id);
        }
        Ok(())
    }

    /// Removes the objects of a file without a name.
    fn bury(&self, id: FileId) -> Result<(), RadosError> {
        let dead = key(DEAD, &id.0)?;
        Head::bury(self.pool, self.options, id)?;
        self.change(|| WriteOperation::new(self.pool).assert_exists().remove_entry(&dead))?;
        Ok(())
    }

    /// Finishes removals that were interrupted; returns how many.
    pub(super) fn bury_dead(&self) -> Result<u64, RadosError> {
        let prefix = key(DEAD, "")?;
        let (mut after, mut buried) = (CString::default(), 0);
        loop {
            let (entries, more) = self.entries(&prefix, &after, PAGE)?;
            for (entry, _) in &entries {
                if let Some(id) = entry.strip_prefix(DEAD).and_then(FileId::parse) {
                    self.bury(id)?;
                    buried += 1;
                }
            }
            match entries.last() {
                Some((last, _)) if more => after = key("", last)?,
                _ => return Ok(buried),
            }
        }
    }

    /// Files whose names begin with `prefix`, `most` of them after the name `after`, in the order
    /// of the names' bytes; and whether there are more.
    pub(super) fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        most: u64,
    ) -> Result<(Vec<RadosFileInfo>, bool), RadosError> {
        let after = after.map_or_else(|| Ok(CString::default()), |name| key(FILES, name))?;
        let (entries, more) = self.entries(&key(FILES, prefix)?, &after, most.clamp(1, PAGE))?;
        let mut files = Vec::with_capacity(entries.len());
        let mut window = Window::new(HEADS);
        for (entry, value) in entries {
            let Some(name) = entry.strip_prefix(FILES) else { continue };
            let id = decode(name, &value)?;
            let load = Head::start_load(self.pool, &id).map_err(|errno| self.failed(errno))?;
            if let Some((load, (name, id))) = window.push(load, (name.to_owned(), id)) {
                files.extend(self.listed(load.wait(), &name, &id)?);
            }
        }
        for (load, (name, id)) in window {
            files.extend(self.listed(load.wait(), &name, &id)?);
        }
        Ok((files, more))
    }

    /// A file of a listing; none if it was removed since.
    fn listed(
        &self,
        (load, outcome): (ReadOperation, Result<(), Errno>),
        name: &str,
        id: &FileId,
    ) -> Result<Option<RadosFileInfo>, RadosError> {
        match outcome {
            Ok(()) => {}
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => return Err(self.failed(errno)),
        }
        let found = HeadAttributes::decode(&load.into_attributes())
            .map_err(|what| RadosError::Damaged { object: id.head(), what })?;
        Ok((!found.removed).then(|| RadosFileInfo::new(name, id, &found)))
    }
}
