//! Data of open files: reads, writes, sizes, space, copies.

use std::os::fd::AsRawFd;

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use striate_stack::{Action, CopyEndpoint, Function, Memory, Op};

use crate::request_buffer::with_buffer;
use crate::source_fs::SourceFs;
use crate::source_fs::handle::{Handle, HandleState};
use crate::source_fs::identity::last_error;

/// The most that is copied by one request: other requests wait for its thread.
const MOST_COPIED: u64 = 64 << 20;

impl SourceFs {
    /// Reads, and calls something with what was read.
    pub(crate) fn read<R>(
        &self,
        handle: &Handle,
        (offset, size): (u64, usize),
        flags: i32,
        act: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Errno> {
        with_buffer(size, |buffer| {
            let count = self.using_with(handle, flags, |using| match using {
                HandleState::Descriptor(descriptor) => {
                    rustix::io::pread(descriptor, &mut *buffer, offset)
                }
                HandleState::Stages(file) => {
                    let memory = Memory::sink(buffer);
                    let action = Action::Read { file, memory, at: Some(offset), flags: 0 };
                    let count = self.stack.call(&mut Op::on(file, Function::Pread, action))?;
                    Ok(count as usize)
                }
            })?;
            Ok(act(buffer.get(..count).unwrap_or_default()))
        })
    }

    /// Writes. Returns how many bytes were taken.
    pub(crate) fn write(
        &self,
        handle: &Handle,
        offset: u64,
        bytes: &[u8],
        flags: i32,
    ) -> Result<usize, Errno> {
        let put = |bytes: &[u8]| {
            self.using_with(handle, flags, |using| match using {
                HandleState::Descriptor(descriptor) => {
                    rustix::io::pwrite(descriptor, bytes, offset)
                }
                HandleState::Stages(file) => {
                    let memory = Memory::source(bytes);
                    let action = Action::Write { file, memory, at: Some(offset), flags: 0 };
                    let count = self.stack.call(&mut Op::on(file, Function::Pwrite, action))?;
                    Ok(count as usize)
                }
            })
        };
        if flags & libc::O_DIRECT == 0 {
            return put(bytes);
        }
        with_buffer(bytes.len(), |buffer| {
            buffer.copy_from_slice(bytes);
            put(buffer)
        })
    }

    /// Clears set-user-id and set-group-id bits, as a write by an unprivileged user does.
    pub(crate) fn drop_rights(&self, handle: &Handle) -> Result<(), Errno> {
        self.using(handle, |using| {
            let descriptor = match using {
                HandleState::Descriptor(descriptor) => std::os::fd::AsFd::as_fd(descriptor),
                HandleState::Stages(file) => file.descriptor()?,
            };
            let mode = rustix::fs::fstat(descriptor)?.st_mode & 0o7777;
            let executed_by_group = mode & 0o2010 == 0o2010;
            let remaining = mode & !0o4000 & !(if executed_by_group { 0o2000 } else { 0 });
            if remaining != mode {
                rustix::fs::fchmod(descriptor, rustix::fs::Mode::from_raw_mode(remaining))?;
            }
            Ok(())
        })
    }

    /// Makes data durable.
    pub(crate) fn sync(&self, handle: &Handle, data_only: bool) -> Result<(), Errno> {
        self.using(handle, |using| match using {
            HandleState::Descriptor(descriptor) if data_only => rustix::fs::fdatasync(descriptor),
            HandleState::Descriptor(descriptor) => rustix::fs::fsync(descriptor),
            HandleState::Stages(file) => {
                let function = if data_only { Function::Fdatasync } else { Function::Fsync };
                let action = Action::Sync { file, data_only };
                self.stack.call(&mut Op::on(file, function, action)).map(|_| ())
            }
        })
    }

    /// Changes the size.
    pub(crate) fn truncate(&self, handle: &Handle, length: u64) -> Result<(), Errno> {
        self.using(handle, |using| match using {
            HandleState::Descriptor(descriptor) => rustix::fs::ftruncate(descriptor, length),
            HandleState::Stages(file) => {
                let action = Action::Truncate { file, length };
                self.stack.call(&mut Op::on(file, Function::Ftruncate, action)).map(|_| ())
            }
        })
    }

    /// Reserves, frees or zeroes space.
    pub(crate) fn allocate(
        &self,
        handle: &Handle,
        mode: i32,
        offset: u64,
        length: u64,
    ) -> Result<(), Errno> {
        self.using(handle, |using| match using {
            HandleState::Descriptor(descriptor) => {
                let place = (offset as i64, length as i64);
                // SAFETY: a descriptor and numbers.
                let done =
                    unsafe { libc::fallocate(descriptor.as_raw_fd(), mode, place.0, place.1) };
                if done == 0 { Ok(()) } else { Err(last_error()) }
            }
            HandleState::Stages(file) => {
                let action = Action::Allocate { file, mode, offset, length };
                self.stack.call(&mut Op::on(file, Function::Fallocate, action)).map(|_| ())
            }
        })
    }

    /// Looks for data or a hole.
    pub(crate) fn seek(&self, handle: &Handle, offset: i64, whence: i32) -> Result<u64, Errno> {
        self.using(handle, |using| match using {
            HandleState::Descriptor(descriptor) => {
                let place = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
                let to = match whence {
                    libc::SEEK_DATA => SeekFrom::Data(place),
                    libc::SEEK_HOLE => SeekFrom::Hole(place),
                    _ => return Err(Errno::INVAL),
                };
                rustix::fs::seek(descriptor, to)
            }
            HandleState::Stages(file) => {
                let action = Action::Seek { file, offset, whence };
                self.stack.call(&mut Op::on(file, Function::Lseek, action))
            }
        })
    }

    /// Copies from file to file. Returns how many bytes that were.
    pub(crate) fn copy(
        &self,
        (from, source): (&Handle, u64),
        (to, sink): (&Handle, u64),
        length: u64,
    ) -> Result<u64, Errno> {
        let length = length.min(MOST_COPIED) as usize;
        // Both are kept from being closed meanwhile, always in the same order.
        if std::ptr::eq(from, to) {
            return self
                .using(from, |both| self.copy_between((both, source), (both, sink), length));
        }
        let copy = |from: HandleState<'_>, to: HandleState<'_>| {
            self.copy_between((from, source), (to, sink), length)
        };
        if std::ptr::from_ref(from) < std::ptr::from_ref(to) {
            self.using(from, |from| self.using(to, |to| copy(from, to)))
        } else {
            self.using(to, |to| self.using(from, |from| copy(from, to)))
        }
    }

    fn copy_between(
        &self,
        (from, source): (HandleState<'_>, u64),
        (to, sink): (HandleState<'_>, u64),
        length: usize,
    ) -> Result<u64, Errno> {
        let (from, to) = (end(from, source)?, end(to, sink)?);
        // The stages of both files are asked.
        let route = match (from.file, to.file) {
            (None, None) => return copy_below(&from, &to, length),
            (Some(from), Some(to)) => from.route().or(to.route()),
            (Some(file), None) | (None, Some(file)) => file.route().clone(),
        };
        self.call(Function::CopyFileRange, &route, Action::CopyRange { from, to, length })
    }
}

fn end(using: HandleState<'_>, at: u64) -> Result<CopyEndpoint<'_>, Errno> {
    let at = Some(at);
    Ok(match using {
        HandleState::Descriptor(descriptor) => {
            CopyEndpoint { file: None, descriptor: descriptor.as_raw_fd(), at }
        }
        HandleState::Stages(file) => {
            CopyEndpoint { file: Some(file), descriptor: file.descriptor()?.as_raw_fd(), at }
        }
    })
}

fn copy_below(from: &CopyEndpoint<'_>, to: &CopyEndpoint<'_>, length: usize) -> Result<u64, Errno> {
    let mut places = [from, to].map(|end| end.at.unwrap_or(0) as i64);
    let [source, sink] = &mut places;
    // SAFETY: descriptors, and valid numbers.
    let copied =
        unsafe { libc::copy_file_range(from.descriptor, source, to.descriptor, sink, length, 0) };
    u64::try_from(copied).map_err(|_| last_error())
}
