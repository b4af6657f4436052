//! Operations on names on servers.
//!
//! A file that is removed, or that another is renamed over, while a program has it open here, gets
//! a hidden name until it is closed: servers have no files without a name. Renaming a directory
//! renames all files in it, one after another.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fuser::{FileAttr, FileType};
use rustix::io::Errno;
use striate_store::remote::FileInfo;

use super::nodes::{NodeKind, ROOT, inside, join, number_of_file, parent};
use super::{HIDDEN, ServerFs, code};
use crate::sync::{lock, read, write};

/// Files that are asked for at a time.
const PAGE: u32 = 1000;

/// The entries of a directory, as they were when a listing began.
#[derive(Debug)]
pub(super) struct DirectorySnapshot {
    pub(super) entries: Vec<(String, u64, FileType)>,
}

impl ServerFs {
    /// What is at a name.
    pub(super) fn lookup(&self, directory: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        let path = self.path(directory, name)?;
        let _names = read(&self.names);
        if self.nodes().is_kept(&path) {
            let number = self.nodes().found_directory(&path);
            return Ok(self.directory_attributes(number));
        }
        match self.client.stat(&path) {
            Ok(info) => {
                let number = self.nodes().found_file(&path, info.file);
                Ok(self.file_attributes(number, &info, info.size, false))
            }
            Err(error) if code(&error) == Errno::NOENT => {
                if !self.has_files(&path)? {
                    return Err(Errno::NOENT);
                }
                let number = self.nodes().found_directory(&path);
                Ok(self.directory_attributes(number))
            }
            Err(error) => Err(code(&error)),
        }
    }

    /// Whether a file is in a directory, or in one below it.
    fn has_files(&self, directory: &str) -> Result<bool, Errno> {
        let page = self.client.list_page(&inside(directory), None, 1);
        page.map(|(files, _)| !files.is_empty()).map_err(|error| code(&error))
    }

    /// Makes a directory.
    pub(super) fn make_directory(&self, directory: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        let path = self.path(directory, name)?;
        let _names = read(&self.names);
        let is_file = match self.client.lookup(&path) {
            Ok(_) => true,
            Err(error) if code(&error) == Errno::NOENT => false,
            Err(error) => return Err(code(&error)),
        };
        if is_file || self.nodes().is_kept(&path) || self.has_files(&path)? {
            return Err(Errno::EXIST);
        }
        let mut nodes = self.nodes();
        nodes.keep(&path);
        let number = nodes.found_directory(&path);
        drop(nodes);
        Ok(self.directory_attributes(number))
    }

    /// Removes a directory.
    pub(super) fn remove_directory(&self, directory: u64, name: &OsStr) -> Result<(), Errno> {
        let path = self.path(directory, name)?;
        let _names = write(&self.names);
        let below = self.nodes().kept_below(&path).next().is_some();
        if below || self.has_files(&path)? {
            return Err(Errno::NOTEMPTY);
        }
        let mut nodes = self.nodes();
        nodes.unkeep(&path);
        nodes.remove(&path);
        nodes.keep(parent(&path));
        Ok(())
    }

    /// Removes a file.
    pub(super) fn remove_file(&self, directory: u64, name: &OsStr) -> Result<(), Errno> {
        let path = self.path(directory, name)?;
        let _names = write(&self.names);
        if !self.hide_open(&path)? {
            self.client.remove(&path).map_err(|error| code(&error))?;
        }
        let mut nodes = self.nodes();
        nodes.remove(&path);
        nodes.keep(parent(&path));
        Ok(())
    }

    /// Gives a file that is open here a hidden name. Returns whether it is open.
    fn hide_open(&self, path: &str) -> Result<bool, Errno> {
        let Some(number) = self.nodes().at(path).filter(|number| self.is_open(*number)) else {
            return Ok(false);
        };
        let info = self.client.lookup(path).map_err(|error| code(&error))?;
        if number_of_file(info.file) != number {
            return Ok(false);
        }
        let hidden = join(&self.base, &format!("{HIDDEN}{:016x}", info.file));
        self.client.rename(path, &hidden, true).map_err(|error| code(&error))?;
        self.nodes().hide(number, &hidden);
        Ok(true)
    }

    /// Gives something another name.
    pub(super) fn rename(
        &self,
        (from_directory, from): (u64, &OsStr),
        (to_directory, to): (u64, &OsStr),
        flags: u32,
    ) -> Result<(), Errno> {
        if flags & !libc::RENAME_NOREPLACE != 0 {
            return Err(Errno::INVAL);
        }
        let replace = flags == 0;
        let (from, to) = (self.path(from_directory, from)?, self.path(to_directory, to)?);
        let _names = write(&self.names);
        if from == to {
            return Ok(());
        }
        let is_directory = match self.client.lookup(&from) {
            Ok(_) => false,
            Err(error) if code(&error) == Errno::NOENT => true,
            Err(error) => return Err(code(&error)),
        };
        let onto = match self.client.lookup(&to) {
            Ok(_) => Some(NodeKind::File(0)),
            Err(error) if code(&error) == Errno::NOENT => {
                let there = self.nodes().is_kept(&to) || self.has_files(&to)?;
                there.then_some(NodeKind::Directory)
            }
            Err(error) => return Err(code(&error)),
        };
        match onto {
            Some(_) if !replace => return Err(Errno::EXIST),
            Some(NodeKind::File(_)) if is_directory => return Err(Errno::NOTDIR),
            Some(NodeKind::Directory) if !is_directory => return Err(Errno::ISDIR),
            _ => {}
        }
        if is_directory {
            self.rename_directory(&from, &to)?;
        } else {
            let renamed = match onto {
                // Of the file that is replaced nothing is left, unless it is open.
                Some(_) if self.hide_open(&to)? => self.client.rename(&from, &to, false),
                Some(_) => self.client.rename(&from, &to, true),
                None => self.client.rename(&from, &to, false),
            };
            renamed.map_err(|error| code(&error))?;
        }
        let mut nodes = self.nodes();
        nodes.remove(&to);
        nodes.rename(&from, &to);
        nodes.keep(parent(&from));
        Ok(())
    }

    fn rename_directory(&self, from: &str, to: &str) -> Result<(), Errno> {
        if self.nodes().kept_below(to).next().is_some() || self.has_files(to)? {
            return Err(Errno::NOTEMPTY);
        }
        let files = self.client.list(&inside(from)).map_err(|error| code(&error))?;
        if files.is_empty() && !self.nodes().is_kept(from) {
            return Err(Errno::NOENT);
        }
        // Also one without files goes there.
        self.nodes().keep(from);
        for FileInfo { path, .. } in files {
            let rest = path.strip_prefix(&inside(from)).unwrap_or(&path);
            let renamed = self.client.rename(&path, &join(to, rest), false);
            renamed.map_err(|error| code(&error))?;
        }
        Ok(())
    }

    /// A directory is to be listed. Returns the number of the listing.
    pub(super) fn open_directory(&self, directory: u64) -> Result<u64, Errno> {
        self.node(directory)?;
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        lock(&self.directories).insert(number, Arc::new(DirectorySnapshot { entries: Vec::new() }));
        Ok(number)
    }

    /// Finds out what is in a directory.
    pub(super) fn renew_directory(&self, number: u64, directory: u64) -> Result<(), Errno> {
        let path = self.node(directory)?.path;
        let above = self.nodes().at(parent(&path)).unwrap_or(ROOT);
        let mut entries = vec![
            (".".to_owned(), directory, FileType::Directory),
            ("..".to_owned(), above, FileType::Directory),
        ];
        let names = read(&self.names);
        let found = self.entries(&path)?;
        drop(names);
        entries.extend(found.into_iter().map(|(name, file)| {
            let kind = if file.is_some() { FileType::RegularFile } else { FileType::Directory };
            let directory = || self.nodes().number_of_directory(&join(&path, &name));
            let number = file.unwrap_or_else(directory);
            (name, number, kind)
        }));
        lock(&self.directories).insert(number, Arc::new(DirectorySnapshot { entries }));
        Ok(())
    }

    /// What is in a directory, each with its number if it is a file.
    fn entries(&self, directory: &str) -> Result<BTreeMap<String, Option<u64>>, Errno> {
        let inside = inside(directory);
        let mut entries = BTreeMap::new();
        for kept in self.nodes().kept_below(directory) {
            let name = kept[inside.len()..].split('/').next().unwrap_or_default();
            entries.insert(name.to_owned(), None);
        }
        let mut after: Option<String> = None;
        loop {
            let page = self.client.list_page(&inside, after.as_deref(), PAGE);
            let (files, more) = page.map_err(|error| code(&error))?;
            after = None;
            for FileInfo { path, file, .. } in files {
                let name = path.get(inside.len()..).unwrap_or_default();
                if let Some((name, _)) = name.split_once('/') {
                    // Of all that is in that directory no more has to be seen.
                    after = Some(format!("{inside}{name}/\u{10ffff}"));
                    entries.insert(name.to_owned(), None);
                } else {
                    if !self.is_hidden(&path) {
                        entries.insert(name.to_owned(), Some(number_of_file(file)));
                    }
                    after = Some(path);
                }
            }
            if !more || after.is_none() {
                return Ok(entries);
            }
        }
    }

    pub(super) fn snapshot(&self, number: u64) -> Result<Arc<DirectorySnapshot>, Errno> {
        lock(&self.directories).get(&number).cloned().ok_or(Errno::BADF)
    }

    pub(super) fn close_directory(&self, number: u64) -> Result<(), Errno> {
        lock(&self.directories).remove(&number).map(|_| ()).ok_or(Errno::BADF)
    }
}
