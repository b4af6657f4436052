//! Updates of the [`Namespace`] by each recorded call.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_recording::ProcessIndex;
use striate_stack::Function;
use striate_trace::{Call, Record, Subject, TracedFile};

use super::{CallSubjects, FileId, Name, Namespace, Node, NodeId};
use crate::fix::Fix;

/// What is in a directory of which is only known that it is not empty.
const MADE_UP: &str = "not-recorded";

impl Namespace {
    /// Takes in a record. `file` and `to` are the files of the call.
    pub(crate) fn observe(
        &mut self,
        process: ProcessIndex,
        record: &Record,
        file: Option<FileId>,
        to: Option<FileId>,
    ) -> (CallSubjects, Vec<Fix>) {
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
            (Call::Notice { .. }, _) if record.function == Function::Splice => (None, None),
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
    ) -> (CallSubjects, Option<Fix>) {
        let until = record.start.saturating_add(record.duration);
        let traced = record.call.file();
        let node = match (&record.call, file, traced) {
            (Call::Open { .. }, ..) => None,
            (_, Some(id), Some(file)) => Some(self.opened(id, file)),
            _ => None,
        };
        let mut about = CallSubjects { node, ..CallSubjects::default() };
        let mut fix = None;
        match (&record.call, record.outcome) {
            (Call::Open { path, flags, size, .. }, outcome) => {
                let makes_new = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
                let resolved = self.resolve(path, flags & libc::O_NOFOLLOW == 0 && !makes_new);
                (about.node, fix) =
                    self.observe_open(&resolved, *flags, *size, outcome, record.start, until);
                if let Cow::Owned(path) = resolved {
                    about.path = Some(path);
                }
                if let (Some(id), Some(node), Ok(_)) = (file, about.node, outcome) {
                    self.open.insert(id, node);
                }
            }
            (Call::Close { last: true, .. }, _) => {
                if let Some(id) = file.filter(|id| id.owner == process) {
                    // Processes that inherited it may still have it open; they use its path then.
                    let closed = self.open.remove(&id);
                    if let Some(node) = closed.filter(|node| self.nodes[*node].names == 0) {
                        self.space.gone(node);
                    }
                }
            }
            (Call::Stat { of, flags, size, mode }, outcome) => {
                let told = (*size, *mode);
                fix = self.observe_stat(of, *flags, told, outcome, record.start, &mut about);
            }
            (Call::Rename { from, to, flags }, Ok(_)) => {
                let paths = [from, to].map(|path| self.resolve(path, false));
                let [from, to] = [&*paths[0], &*paths[1]];
                (about, fix) = self.observe_rename(from, to, *flags, record.start, until);
                let [path, to] = paths.map(|path| match path {
                    Cow::Owned(path) => Some(path),
                    Cow::Borrowed(_) => None,
                });
                (about.path, about.to) = (path, to);
            }
            (Call::Rename { from, .. }, Err(libc::ENOENT)) => {
                about.node = self.node(from);
            }
            (Call::Unlink { path, flags }, _) => {
                let resolved = self.resolve(path, false);
                fix = self.observe_unlink(&resolved, *flags, record, &mut about);
                if let Cow::Owned(path) = resolved {
                    about.path = Some(path);
                }
            }
            (Call::MakeDirectory { path, .. }, _) => {
                let resolved = self.resolve(path, false);
                fix = self.observe_mkdir(&resolved, record, &mut about);
                if let Cow::Owned(path) = resolved {
                    about.path = Some(path);
                }
            }
            (Call::ReadDirectory { path }, outcome) if record.known => {
                let resolved = self.resolve(path, true);
                match outcome {
                    Ok(_) => {
                        let (node, made) = self.there_directory(&resolved, record.start);
                        (about.node, fix) = (Some(node), made);
                    }
                    Err(libc::ENOENT) => fix = self.absent(&resolved, record.start),
                    Err(libc::ENOTDIR) => fix = self.no_directory(&resolved, true, record.start),
                    Err(_) => about.node = self.node(&resolved),
                }
                if let Cow::Owned(path) = resolved {
                    about.path = Some(path);
                }
            }
            (Call::ReadDirectory { path }, _) => {
                // It is only about to be listed: it may not be there.
                about.node = self.node(path);
                if self.learning && !self.names.contains_key(&**path) {
                    self.directories.insert(path.to_path_buf());
                }
            }
            (Call::Notice { .. }, _) => {
                fix = self.observe_notice(process, record, &mut about, until);
            }
            _ => fix = self.observe_data(record, to, &mut about),
        }
        (about, fix)
    }

    /// Takes in a call that changes or shows the contents of an open file.
    fn observe_data(
        &mut self,
        record: &Record,
        to: Option<FileId>,
        about: &mut CallSubjects,
    ) -> Option<Fix> {
        let until = record.start.saturating_add(record.duration);
        let node = about.node?;
        self.observe_space(record, node);
        let moved = record.outcome.ok()?;
        let mut fix = None;
        match &record.call {
            Call::Read { offset: Some(offset), file, .. } if moved > 0 => {
                let end = offset.saturating_add(moved);
                fix = self.has_been_read(node, &file.path, end, record.start);
            }
            Call::Write { offset, file, .. } if moved > 0 => {
                // The process that moved the position up to here has written as far.
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
                    self.takes(other, end.at, moved);
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

    /// What a call may take on storage, whatever its outcome was then: there may be more space now,
    /// and no signal interrupts it.
    fn observe_space(&mut self, record: &Record, node: NodeId) {
        match &record.call {
            Call::Write { offset, length, .. } => self.takes(node, *offset, *length),
            Call::Allocate { mode, offset, length, .. } if self.learning => {
                if mode & libc::FALLOC_FL_PUNCH_HOLE != 0 {
                    self.space.gives(node, *offset, *length);
                } else if mode & libc::FALLOC_FL_COLLAPSE_RANGE == 0 {
                    self.space.takes(node, *offset, *length);
                }
            }
            _ => {}
        }
    }

    fn observe_unlink(
        &mut self,
        path: &Path,
        flags: i32,
        record: &Record,
        about: &mut CallSubjects,
    ) -> Option<Fix> {
        about.node = self.node(path);
        let removes_directory = flags & libc::AT_REMOVEDIR != 0;
        match record.outcome {
            Err(libc::ENOENT) => return self.absent(path, record.start),
            Err(libc::ENOTEMPTY | libc::EEXIST) if removes_directory => {
                return self.observe_not_empty(path, record, about);
            }
            Err(libc::EISDIR) => {
                let (node, fix) = self.there_directory(path, record.start);
                about.node = Some(node);
                return fix;
            }
            Err(libc::ENOTDIR) => return self.no_directory(path, removes_directory, record.start),
            Err(_) => return None,
            Ok(_) => {}
        }
        let (node, fix) = if removes_directory {
            self.clear_made_up(path);
            self.there_directory(path, record.start)
        } else {
            self.there(path, None, record.start)
        };
        about.node = Some(node);
        self.set_name(path, None, record.start.saturating_add(record.duration));
        fix
    }

    /// A directory is not empty, so there is something in it: if nothing is known of that, it is
    /// made up.
    fn observe_not_empty(
        &mut self,
        path: &Path,
        record: &Record,
        about: &mut CallSubjects,
    ) -> Option<Fix> {
        let (node, fix) = self.there_directory(path, record.start);
        about.node = Some(node);
        let mut below = self.names.range(path.to_path_buf()..).skip(1);
        let mut below = below.by_ref().take_while(|(name, _)| name.starts_with(path));
        if below.any(|(_, name)| name.node.is_some() || name.until > record.start) {
            return fix;
        }
        self.fixes.extend(fix);
        self.there(&path.join(MADE_UP), Some(0), record.start).1
    }

    /// A directory is empty now: generated entries in it are removed.
    fn clear_made_up(&mut self, path: &Path) {
        let path = path.join(MADE_UP);
        if self.names.get(&path).is_some_and(|name| name.node.is_some()) {
            self.set_name(&path, None, 0);
            self.fixes.push(Fix::Nothing(path));
        }
    }

    fn observe_mkdir(
        &mut self,
        path: &Path,
        record: &Record,
        about: &mut CallSubjects,
    ) -> Option<Fix> {
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
        path: &Path,
        flags: i32,
        size: Option<u64>,
        outcome: Result<u64, i32>,
        start: u64,
        until: u64,
    ) -> (Option<NodeId>, Option<Fix>) {
        let (creates, exclusive) = (flags & libc::O_CREAT != 0, flags & libc::O_EXCL != 0);
        let empties = flags & libc::O_TRUNC != 0;
        match outcome {
            Ok(_) if flags & libc::O_TMPFILE == libc::O_TMPFILE => {
                let fix = self.there_directory(path, start).1;
                let node = Node { size: Some(0), touched: true, until, ..Node::default() };
                (Some(self.new_node(node)), fix)
            }
            Ok(_) if flags & libc::O_DIRECTORY != 0 => {
                let (node, fix) = self.there_directory(path, start);
                (Some(node), fix)
            }
            Ok(_) => {
                let known = self.names.get(path).copied();
                let is_there = known.is_some_and(|name| name.node.is_some());
                // A file that is not known is one that the call has made, if it is empty.
                let makes =
                    creates && (exclusive || !is_there && (empties || size.unwrap_or(0) == 0));
                if makes {
                    // Unless the call says so, it may as well have found it.
                    let may_find = known.is_none() && !exclusive && !empties && size.is_none();
                    self.beneath(path);
                    let assumed = if may_find { self.first_path(path) } else { None };
                    let fix = self.absent(path, start).filter(|_| is_there);
                    let node = Node { size: Some(0), touched: true, until, ..Node::default() };
                    let node = self.new_node(Node { assumed, ..node });
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
            Err(libc::ENOENT) => (None, path.parent().and_then(|above| self.absent(above, start))),
            Err(libc::ENOTDIR) => {
                (None, self.no_directory(path, flags & libc::O_DIRECTORY != 0, start))
            }
            Err(libc::ELOOP) if flags & libc::O_NOFOLLOW != 0 => {
                let (node, fix) = self.there_link(path, None, None);
                (Some(node), fix)
            }
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
        flags: i32,
        (size, mode): (Option<u64>, Option<u32>),
        outcome: Result<u64, i32>,
        start: u64,
        about: &mut CallSubjects,
    ) -> Option<Fix> {
        let file_type = mode.map(|mode| mode & libc::S_IFMT);
        let path = match (of, outcome) {
            (Subject::File(file), Ok(_)) => {
                let node = about.node?;
                if file_type == Some(libc::S_IFDIR) {
                    self.nodes[node].directory = true;
                }
                return self.has_size(node, &file.path, size, start);
            }
            (Subject::File(_), Err(_)) => return None,
            (Subject::Name(path), _) => path,
        };
        let resolved = self.resolve(path, flags & libc::AT_SYMLINK_NOFOLLOW == 0);
        about.node = self.node(&resolved);
        let fix = match outcome {
            Ok(_) => {
                let (node, fix) = match file_type {
                    Some(libc::S_IFDIR) => self.there_directory(&resolved, start),
                    Some(libc::S_IFLNK) => self.there_link(&resolved, None, size),
                    None | Some(libc::S_IFREG) => self.there(&resolved, size, start),
                    Some(_) => self.there(&resolved, None, start),
                };
                about.node = Some(node);
                if let Some(mode) = mode {
                    self.has_mode(node, mode);
                }
                fix
            }
            Err(libc::ENOENT) => self.absent(&resolved, start),
            Err(libc::ENOTDIR) => self.no_directory(&resolved, false, start),
            Err(_) => None,
        };
        if let Cow::Owned(path) = resolved {
            about.path = Some(path);
        }
        fix
    }

    fn observe_rename(
        &mut self,
        from: &Path,
        to: &Path,
        flags: u32,
        start: u64,
        until: u64,
    ) -> (CallSubjects, Option<Fix>) {
        self.beneath(to);
        let (node, fix) = self.there(from, None, start);
        let other = self.node(to);
        let about = CallSubjects { node: Some(node), other, ..CallSubjects::default() };
        if from == to {
            return (about, fix);
        }
        let exchanges = flags & libc::RENAME_EXCHANGE != 0;
        let back = if exchanges { self.take_below(to) } else { Vec::new() };
        let below = self.take_below(from);
        if !exchanges {
            self.set_name(from, None, until);
            // What a directory took the place of was empty.
            for (_, name) in self.take_below(to) {
                if let Some(node) = name.node {
                    self.lost_name(node);
                }
            }
        }
        for (names, old, new) in [(below, from, to), (back, to, from)] {
            for (path, name) in names {
                let Ok(rest) = path.strip_prefix(old) else { continue };
                let path =
                    if rest.as_os_str().is_empty() { new.to_path_buf() } else { new.join(rest) };
                let before = self.names.insert(path, Name { node: name.node, until });
                if let Some(before) = before.and_then(|before| before.node) {
                    self.lost_name(before);
                }
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
}
