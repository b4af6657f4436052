//! What a call reads and writes, for the order of calls.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use smallvec::SmallVec;
use striate_stack::Function;
use striate_trace::{Call, Record, Subject};

use crate::namespace::{CallSubjects, FileId};
use crate::order::Key;

/// Things that a call is about, and whether it writes them.
pub(super) type Keys = SmallVec<[(Key, bool); 4]>;

/// What a call is about. Directories above a name count if they come and go in the recording.
pub(super) fn keys(
    record: &Record,
    files: [Option<FileId>; 2],
    about: &CallSubjects,
    changing: &HashSet<PathBuf>,
) -> Keys {
    let mut keys = Keys::new();
    let node = |node: Option<usize>, writes: bool, keys: &mut Keys| {
        keys.extend(node.map(|node| (Key::Node(node), writes)));
    };
    let file = |file: Option<FileId>, writes: bool, keys: &mut Keys| {
        keys.extend(file.map(|file| (Key::File(file), writes)));
    };
    let name = |path: &Path, writes: bool, keys: &mut Keys| {
        keys.push((Key::Name(path.to_path_buf()), writes));
        for above in path.ancestors().skip(1).filter(|above| changing.contains(*above)) {
            keys.push((Key::Name(above.to_path_buf()), false));
        }
    };
    match &record.call {
        Call::Open { path, flags, .. } => {
            let path = about.path.as_deref().unwrap_or(path);
            name(path, flags & libc::O_CREAT != 0, &mut keys);
            node(about.node, flags & libc::O_TRUNC != 0, &mut keys);
            file(files[0], true, &mut keys);
        }
        Call::Close { file: closed, .. } => {
            // Its buffered data is now visible to others.
            node(about.node, closed.flags & libc::O_ACCMODE != libc::O_RDONLY, &mut keys);
            file(files[0], true, &mut keys);
        }
        Call::Read { placed, .. } => {
            node(about.node, false, &mut keys);
            file(files[0], !placed, &mut keys);
        }
        Call::Write { placed, .. } => {
            node(about.node, true, &mut keys);
            file(files[0], !placed, &mut keys);
        }
        Call::Seek { whence, .. } => {
            if !matches!(*whence, libc::SEEK_SET | libc::SEEK_CUR) {
                node(about.node, false, &mut keys);
            }
            file(files[0], true, &mut keys);
        }
        Call::Sync { .. }
        | Call::Truncate { .. }
        | Call::Allocate { .. }
        | Call::Map { .. }
        | Call::Notice { of: Subject::File(_), .. } => {
            node(about.node, true, &mut keys);
            let moves = record.function == Function::Splice;
            file(files[0], moves, &mut keys);
            if let Some(to) = &about.to {
                name(to, true, &mut keys);
            }
        }
        Call::Stat { of, .. } => {
            match of {
                Subject::Name(path) => {
                    name(about.path.as_deref().unwrap_or(path), false, &mut keys);
                }
                Subject::File(_) => file(files[0], false, &mut keys),
            }
            node(about.node, false, &mut keys);
        }
        Call::Rename { from, to, .. } => {
            name(about.path.as_deref().unwrap_or(from), true, &mut keys);
            name(about.to.as_deref().unwrap_or(to), true, &mut keys);
            node(about.node, true, &mut keys);
            node(about.other, false, &mut keys);
        }
        Call::Unlink { path, .. } | Call::MakeDirectory { path, .. } => {
            name(about.path.as_deref().unwrap_or(path), true, &mut keys);
            node(about.node, false, &mut keys);
        }
        Call::ReadDirectory { path } => {
            name(about.path.as_deref().unwrap_or(path), true, &mut keys);
        }
        Call::Duplicate { .. } | Call::Control { .. } => file(files[0], true, &mut keys),
        Call::CopyRange { from, to, .. } | Call::SendFile { from, to, .. } => {
            node(about.node, false, &mut keys);
            node(about.other, true, &mut keys);
            file(files[0], from.at.is_none(), &mut keys);
            file(files[1], to.at.is_none(), &mut keys);
        }
        Call::Notice { of: Subject::Name(path), .. } => {
            let only_asks = matches!(
                record.function,
                Function::Access
                    | Function::Readlink
                    | Function::Exec
                    | Function::Realpath
                    | Function::Statfs
                    | Function::Chdir
            );
            if let Some(to) = &about.to {
                name(to, true, &mut keys);
            }
            name(about.path.as_deref().unwrap_or(path), !only_asks, &mut keys);
            node(about.node, !only_asks, &mut keys);
            node(about.other, false, &mut keys);
        }
    }
    keys
}
