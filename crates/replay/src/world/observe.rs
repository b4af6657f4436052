//! What each call tells of the [`World`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_recording::ProcessIndex;
use striate_stack::Function;
use striate_stack::trace::{Call, Record, RecordedCall, Subject, TracedFile};

use super::{About, FileId, Name, Node, NodeId, World};
use crate::fix::Fix;

impl World {
    /// Takes in a record. `file` and `to` are the files of the call.
    pub(crate) fn observe(
        &mut self,
        process: ProcessIndex,
        record: &Record,
        file: Option<FileId>,
        to: Option<FileId>,
    ) -> (About, Vec<Fix>) {
        if let Some(id) = file {
            self.observe_position(id, record);
        }
        let (about, fix) = self.observe_call(process, record, file, to);
        let mut fixes = std::mem::take(&mut self.fixes);
        fixes.extend(fix);
        (about, fixes)
    }

    /// Takes in where the position of a file is, and what becomes of it.
    fn observe_position(&mut self, id: FileId, record: &Record) {
        let until = record.start.saturating_add(record.duration);
        let moved = record.outcome.unwrap_or(0);
        let (at, after) = match (&record.call, record.outcome) {
            (Call::Open { .. }, Ok(_)) => (None, Some(0)),
            (Call::Close { last: true, .. }, _) => {
                self.positions.remove(&id);
                return;
            }
            (
                Call::Read { placed: false, offset, .. }
                | Call::Write { placed: false, offset, .. },
                _,
            ) => (*offset, offset.map(|offset| offset.saturating_add(moved))),
            (Call::Seek { offset, whence: libc::SEEK_CUR, .. }, Ok(position)) => {
                (position.checked_add_signed(offset.saturating_neg()), Some(position))
            }
            (Call::Seek { .. }, Ok(position)) => (None, Some(position)),
            (Call::CopyRange { .. } | Call::SendFile { .. }, _) => (None, None),
            _ => return,
        };
        if let (Some((known, busy)), Some(at)) = (self.positions.get(&id), at)
            && *known != at
            && *busy <= record.start
        {
            self.fixes.push(Fix::Position(id, at));
        }
        match after {
            Some(after) => self.positions.insert(id, (after, until)),
            None => self.positions.remove(&id),
        };
    }

    fn observe_call(
        &mut self,
        process: ProcessIndex,
        record: &Record,
        file: Option<FileId>,
        to: Option<FileId>,
    ) -> (About, Option<Fix>) {
        let until = record.start.saturating_add(record.duration);
        let traced = record.call.file();
        let node = match (&record.call, file, traced) {
            (Call::Open { .. }, ..) => None,
            (_, Some(id), Some(file)) => Some(self.opened(id, file)),
            _ => None,
        };
        let mut about = About { node, other: None };
        let mut fix = None;
        match (&record.call, record.outcome) {
            (Call::Open { path, flags, size, .. }, outcome) => {
                (about.node, fix) =
                    self.observe_open(path, *flags, *size, outcome, record.start, until);
                if let (Some(id), Some(node), Ok(_)) = (file, about.node, outcome) {
                    self.open.insert(id, node);
                }
            }
            (Call::Close { last: true, .. }, _) => {
                if let Some(id) = file.filter(|id| id.owner == process) {
                    // Heirs may still have it; they go by its path then.
                    self.open.remove(&id);
                }
            }
            (Call::Stat { of, size, .. }, outcome) => {
                fix = self.observe_stat(of, *size, outcome, record.start, &mut about);
            }
            (Call::Rename { from, to, flags }, Ok(_)) => {
                (about, fix) = self.observe_rename(from, to, *flags, record.start, until);
            }
            (Call::Rename { from, .. }, Err(libc::ENOENT)) => {
                about.node = self.node(from);
            }
            (Call::Unlink { path, flags }, _) => {
                fix = self.observe_unlink(path, *flags, record, &mut about);
            }
            (Call::MakeDirectory { path, .. }, _) => {
                fix = self.observe_mkdir(path, record, &mut about);
            }
            (Call::ReadDirectory { path }, _) => {
                // It is only about to be listed: it may not be there.
                about.node = self.node(path);
                if self.learning && !self.names.contains_key(&**path) {
                    self.directories.insert(path.to_path_buf());
                }
            }
            (Call::Notice { of }, _) => self.observe_notice(process, record, of, &mut about, until),
            _ => fix = self.observe_data(record, to, &mut about),
        }
        (about, fix)
    }

    /// Takes in a call that changes or shows the contents of an open file.
    fn observe_data(
        &mut self,
        record: &Record,
        to: Option<FileId>,
        about: &mut About,
    ) -> Option<Fix> {
        let until = record.start.saturating_add(record.duration);
        let moved = record.outcome.ok()?;
        let node = about.node?;
        let mut fix = None;
        match &record.call {
            Call::Read { offset: Some(offset), file, .. } if moved > 0 => {
                let end = offset.saturating_add(moved);
                if self.nodes[node].size.is_none_or(|size| size < end) {
                    fix = self.has_size(node, &file.path, Some(end), record.start);
                }
            }
            Call::Write { offset, file, .. } if moved > 0 => {
                // Whoever moved the position up to here has written as far.
                if let Some(Fix::Position(_, at)) = self.fixes.last()
                    && self.nodes[node].size.is_some_and(|size| size < *at)
                {
                    let at = *at;
                    fix = self.has_size(node, &file.path, Some(at), record.start);
                }
                let appends = file.flags & libc::O_APPEND != 0;
                let end = self.nodes[node].size.filter(|_| appends);
                match offset.or(end) {
                    Some(at) => self.grows(node, at.saturating_add(moved), until),
                    None => self.resized(node, None, until),
                }
            }
            Call::Truncate { length, .. } => self.resized(node, Some(*length), until),
            Call::Allocate { mode, offset, length, .. } => {
                let shifts = libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE;
                if mode & shifts != 0 {
                    self.resized(node, None, until);
                } else if mode & libc::FALLOC_FL_KEEP_SIZE == 0 {
                    self.grows(node, offset.saturating_add(*length), until);
                }
            }
            Call::CopyRange { to: end, .. } | Call::SendFile { to: end, .. } => {
                if let (Some(id), Some(traced)) = (to, &end.file) {
                    let other = self.opened(id, traced);
                    about.other = Some(other);
                    match end.at {
                        Some(at) => self.grows(other, at.saturating_add(moved), until),
                        None => self.resized(other, None, until),
                    }
                }
            }
            _ => {}
        }
        fix
    }

    fn observe_unlink(
        &mut self,
        path: &Path,
        flags: i32,
        record: &Record,
        about: &mut About,
    ) -> Option<Fix> {
        about.node = self.node(path);
        if record.outcome == Err(libc::ENOENT) {
            return self.absent(path, record.start);
        }
        record.outcome.ok()?;
        let (node, fix) = self.there(path, None, record.start);
        about.node = Some(node);
        self.nodes[node].directory |= flags & libc::AT_REMOVEDIR != 0;
        self.set_name(path, None, record.start.saturating_add(record.duration));
        fix
    }

    fn observe_mkdir(&mut self, path: &Path, record: &Record, about: &mut About) -> Option<Fix> {
        match record.outcome {
            Ok(_) => {
                let until = record.start.saturating_add(record.duration);
                self.beneath(path);
                let fix = self.absent(path, record.start);
                let node = self.new_node(Node { directory: true, until, ..Node::default() });
                self.set_name(path, Some(node), until);
                about.node = Some(node);
                fix
            }
            Err(libc::EEXIST) => {
                let (node, fix) = self.there(path, None, record.start);
                about.node = Some(node);
                fix
            }
            Err(_) => None,
        }
    }

    fn observe_open(
        &mut self,
        path: &Arc<Path>,
        flags: i32,
        size: Option<u64>,
        outcome: Result<u64, i32>,
        start: u64,
        until: u64,
    ) -> (Option<NodeId>, Option<Fix>) {
        let (creates, exclusive) = (flags & libc::O_CREAT != 0, flags & libc::O_EXCL != 0);
        let empties = flags & libc::O_TRUNC != 0;
        match outcome {
            Ok(_) => {
                let known = self.names.get(&**path).copied();
                let is_there = known.is_some_and(|name| name.node.is_some());
                // A file that is not known is one that the call has made, if it is empty.
                let makes =
                    creates && (exclusive || !is_there && (empties || size.unwrap_or(0) == 0));
                if makes {
                    let fix = self.absent(path, start).filter(|_| is_there);
                    self.beneath(path);
                    let node = Node { size: Some(0), touched: true, until, ..Node::default() };
                    let node = self.new_node(node);
                    self.set_name(path, Some(node), until);
                    return (Some(node), fix);
                }
                let told = if empties { None } else { size };
                let (node, fix) = self.there(path, told, start);
                if empties {
                    self.resized(node, Some(0), until);
                }
                (Some(node), fix)
            }
            Err(libc::ENOENT) if !creates => (None, self.absent(path, start)),
            Err(libc::EEXIST) if exclusive => {
                let (node, fix) = self.there(path, None, start);
                (Some(node), fix)
            }
            Err(libc::EISDIR) => {
                if self.learning {
                    self.directories.insert(path.to_path_buf());
                }
                let (node, fix) = self.there(path, None, start);
                self.nodes[node].directory = true;
                (Some(node), fix)
            }
            Err(_) => (self.node(path), None),
        }
    }

    fn observe_stat(
        &mut self,
        of: &Subject<Arc<TracedFile>, Arc<Path>>,
        size: Option<u64>,
        outcome: Result<u64, i32>,
        start: u64,
        about: &mut About,
    ) -> Option<Fix> {
        match (of, outcome) {
            (Subject::File(file), Ok(_)) => self.has_size(about.node?, &file.path, size, start),
            (Subject::Name(path), Ok(_)) => {
                let (node, fix) = self.there(path, size, start);
                about.node = Some(node);
                fix
            }
            (Subject::Name(path), Err(libc::ENOENT)) => {
                about.node = self.node(path);
                self.absent(path, start)
            }
            _ => None,
        }
    }

    fn observe_rename(
        &mut self,
        from: &Arc<Path>,
        to: &Arc<Path>,
        flags: u32,
        start: u64,
        until: u64,
    ) -> (About, Option<Fix>) {
        self.beneath(to);
        let (node, fix) = self.there(from, None, start);
        let other = self.node(to);
        let about = About { node: Some(node), other };
        if from == to {
            return (about, fix);
        }
        let exchanges = flags & libc::RENAME_EXCHANGE != 0;
        let back = if exchanges { self.take_below(to) } else { Vec::new() };
        let below = self.take_below(from);
        if !exchanges {
            self.set_name(from, None, until);
            // What a directory took the place of was empty.
            drop(self.take_below(to));
        }
        for (names, old, new) in [(below, from, to), (back, to, from)] {
            for (path, name) in names {
                let Ok(rest) = path.strip_prefix(&**old) else { continue };
                let path =
                    if rest.as_os_str().is_empty() { new.to_path_buf() } else { new.join(rest) };
                self.names.insert(path, Name { node: name.node, until });
            }
        }
        (about, fix)
    }

    /// Takes away a name and all below it.
    fn take_below(&mut self, path: &Path) -> Vec<(PathBuf, Name)> {
        let below = self.names.range(path.to_path_buf()..);
        let below = below.take_while(|(name, _)| name.starts_with(path));
        let below: Vec<PathBuf> = below.map(|(name, _)| name.clone()).collect();
        below.into_iter().filter_map(|path| self.names.remove_entry(&path)).collect()
    }

    fn observe_notice(
        &mut self,
        process: ProcessIndex,
        record: &Record,
        of: &Subject<Arc<TracedFile>, Arc<Path>>,
        about: &mut About,
        until: u64,
    ) {
        let Subject::Name(path) = of else { return };
        about.node = self.node(path);
        let who = (process, record.thread);
        match (record.function, self.links.remove(&who)) {
            (Function::Link, Some(old)) => {
                about.other = self.node(&old);
                if self.node(path).is_none()
                    && let Some(node) = self.node(&old)
                {
                    self.beneath(path);
                    self.set_name(path, Some(node), until);
                }
            }
            (Function::Link, None) => {
                self.links.insert(who, path.to_path_buf());
            }
            // Where it leads is not told: what is found there is made when it is found.
            (Function::Symlink, _) if about.node.is_none() => self.set_name(path, None, 0),
            // The length is not told.
            (Function::Truncate, _) => {
                if let Some(node) = about.node {
                    self.resized(node, None, until);
                }
            }
            _ => {}
        }
    }

    /// The old name of a link whose new one this call says.
    pub(crate) fn link_from(&self, process: ProcessIndex, record: &Record) -> Option<PathBuf> {
        let links = record.function == Function::Link
            && matches!(&record.call, RecordedCall::Notice { of: Subject::Name(_) });
        if links { self.links.get(&(process, record.thread)).cloned() } else { None }
    }
}
