//! Updates of the [`Namespace`] by calls that stages are only notified of.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_recording::ProcessIndex;
use striate_stack::{Detail, Function};
use striate_trace::{Call, Record, RecordedCall, Subject, TracedFile};

use super::{CallSubjects, Namespace, Node};
use crate::fix::Fix;

/// Whether a path is one by which the kernel shows the descriptors of processes.
pub(crate) fn descriptor_shown(path: &Path) -> Option<i32> {
    let text = path.to_str()?;
    let rest = text.strip_prefix("/proc/").and_then(|rest| rest.split_once("/fd/"));
    let number = rest.map(|(_, number)| number).or_else(|| text.strip_prefix("/dev/fd/"))?;
    number.parse().ok()
}

impl Namespace {
    pub(super) fn observe_notice(
        &mut self,
        process: ProcessIndex,
        record: &Record,
        about: &mut CallSubjects,
        until: u64,
    ) -> Option<Fix> {
        let Call::Notice { of, detail } = &record.call else { return None };
        if !record.known {
            self.observe_unknown(process, record, of, about, until);
            return None;
        }
        match of {
            Subject::File(file) => self.observe_notice_of_file(record, file, detail, about, until),
            Subject::Name(path) => self.observe_notice_of_name(record, path, detail, about, until),
        }
    }

    fn observe_notice_of_file(
        &mut self,
        record: &Record,
        file: &TracedFile,
        detail: &Detail<Arc<Path>>,
        about: &mut CallSubjects,
        until: u64,
    ) -> Option<Fix> {
        let moved = record.outcome.ok()?;
        let node = about.node?;
        match record.function {
            Function::Chdir => self.nodes[node].directory = true,
            Function::Link => {
                let to = detail.text.as_deref()?;
                return self.observe_new_name(to, about, until, record.start);
            }
            Function::Splice => match (detail.numbers[0], detail.numbers[1].checked_sub(1)) {
                (0, Some(at)) if moved > 0 => {
                    let end = at.saturating_add(moved);
                    return self.has_been_read(node, &file.path, end, record.start);
                }
                (1, Some(at)) => {
                    self.takes(node, Some(at), moved);
                    self.grows(node, at.saturating_add(moved), until);
                }
                (1, None) => {
                    self.takes(node, None, moved);
                    self.resized(node, None, until);
                }
                _ => {}
            },
            _ => {}
        }
        None
    }

    fn observe_notice_of_name(
        &mut self,
        record: &Record,
        name: &Path,
        detail: &Detail<Arc<Path>>,
        about: &mut CallSubjects,
        until: u64,
    ) -> Option<Fix> {
        let start = record.start;
        let function = record.function;
        if descriptor_shown(name).is_some() {
            if function == Function::Link && record.outcome.is_ok() {
                // A file without a name gets one.
                let node = Node { touched: true, until, ..Node::default() };
                about.node = Some(self.new_node(node));
                return self.observe_new_name(detail.text.as_deref()?, about, until, start);
            }
            return None;
        }
        let follows = match function {
            Function::Readlink | Function::Symlink | Function::Mknod => false,
            Function::Link => detail.flags & libc::AT_SYMLINK_FOLLOW != 0,
            Function::Open | Function::Openat => detail.flags & libc::O_NOFOLLOW == 0,
            _ => detail.flags & libc::AT_SYMLINK_NOFOLLOW == 0,
        };
        let resolved = self.resolve(name, follows);
        let path: &Path = &resolved;
        about.node = self.node(path);
        let fix = match (function, record.outcome) {
            (Function::Symlink, Ok(_)) => {
                self.beneath(path);
                let fix = self.absent(path, start);
                let to = detail.text.as_deref().unwrap_or(Path::new("unknown"));
                about.node = Some(self.made_link(path, to, until));
                fix
            }
            (Function::Mknod, Ok(_)) => {
                self.beneath(path);
                let fix = self.absent(path, start);
                let node = Node { size: Some(0), touched: true, until, ..Node::default() };
                let node = self.new_node(node);
                self.set_name(path, Some(node), until);
                about.node = Some(node);
                fix
            }
            (Function::Symlink | Function::Mknod, Err(libc::EEXIST)) => {
                let (node, fix) = self.there(path, None, start);
                about.node = Some(node);
                fix
            }
            (Function::Symlink | Function::Mknod, _) => None,
            (Function::Readlink, Ok(length)) => {
                let (node, fix) = self.there_link(path, detail.text.as_deref(), Some(length));
                about.node = Some(node);
                fix
            }
            (Function::Link, Ok(_)) => {
                let (node, fix) = self.there(path, None, start);
                about.node = Some(node);
                let to = detail.text.as_deref()?;
                let other = self.observe_new_name(to, about, until, start);
                self.fixes.extend(other);
                fix
            }
            (Function::Link, Err(libc::EEXIST)) => {
                let to = detail.text.as_deref()?;
                let to = self.resolve(to, false);
                let (node, fix) = self.there(&to, None, start);
                about.other = Some(node);
                self.fixes.extend(fix);
                let (node, fix) = self.there(path, None, start);
                about.node = Some(node);
                fix
            }
            (Function::Chdir, Ok(_)) => {
                let (node, fix) = self.there_directory(path, start);
                about.node = Some(node);
                fix
            }
            (Function::Chdir, Err(libc::ENOTDIR)) => self.no_directory(path, true, start),
            (_, Err(libc::ENOTDIR)) => self.no_directory(path, false, start),
            (_, Err(libc::ENOENT)) => self.absent(path, start),
            // It exists, and is not a link.
            (_, Ok(_))
            | (Function::Readlink, Err(libc::EINVAL))
            | (Function::Access, Err(libc::EACCES))
            | (Function::Xattr, Err(libc::ENODATA)) => {
                let (node, fix) = self.there(path, None, start);
                about.node = Some(node);
                let executable = libc::X_OK as u64;
                if function == Function::Access
                    && detail.numbers[0] & executable != 0
                    && record.outcome.is_ok()
                {
                    self.has_mode(node, 0o755);
                }
                if function == Function::Truncate && record.outcome.is_ok() {
                    self.resized(node, Some(detail.numbers[0]), until);
                }
                fix
            }
            _ => None,
        };
        if let std::borrow::Cow::Owned(path) = resolved {
            about.path = Some(path);
        }
        fix
    }

    /// A name is another one of the file that a call is about.
    fn observe_new_name(
        &mut self,
        to: &Path,
        about: &mut CallSubjects,
        until: u64,
        start: u64,
    ) -> Option<Fix> {
        let to = self.resolve(to, false).into_owned();
        self.beneath(&to);
        let fix = self.absent(&to, start);
        self.set_name(&to, about.node, until);
        about.to = Some(to);
        fix
    }

    /// A notice of a trace that does not say what came of it.
    fn observe_unknown(
        &mut self,
        process: ProcessIndex,
        record: &Record,
        of: &Subject<Arc<TracedFile>, Arc<Path>>,
        about: &mut CallSubjects,
        until: u64,
    ) {
        let Subject::Name(path) = of else { return };
        about.node = self.node(path);
        let who = (process, record.thread);
        match (record.function, self.linking.remove(&who)) {
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
                self.linking.insert(who, path.to_path_buf());
            }
            // Its target is not recorded: it is created when a call finds it.
            (Function::Symlink, _) if about.node.is_none() => self.set_name(path, None, 0),
            // The length is not recorded.
            (Function::Truncate, _) => {
                if let Some(node) = about.node {
                    self.resized(node, None, until);
                }
            }
            _ => {}
        }
    }

    /// The old name of a link whose new one this call says, in a trace that does not say what came
    /// of it.
    pub(crate) fn link_from(&self, process: ProcessIndex, record: &Record) -> Option<PathBuf> {
        let links = record.function == Function::Link
            && !record.known
            && matches!(&record.call, RecordedCall::Notice { of: Subject::Name(_), .. });
        if links { self.linking.get(&(process, record.thread)).cloned() } else { None }
    }
}
