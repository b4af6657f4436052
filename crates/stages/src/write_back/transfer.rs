//! Reads and writes of write-back.

use std::ops::Range;

use striate_process::limits;
use striate_process::lock::Locked;
use striate_stack::{Action, Memory, Next, Op, Outcome};

use super::buffer::BufferContents;
use super::extents::Appended;
use super::{WriteBack, WriteBackHandle};
use crate::position::{self, CallPosition, FAR, forward_at};

impl WriteBack {
    #[inline]
    pub(super) fn write(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Write { file, memory, at, flags } = &op.action else { return next.call(op) };
        let file = *file;
        let Some(handle) = file.state::<WriteBackHandle>(next.slot()) else { return next.call(op) };
        let mut place = CallPosition::of(file, *at)?;
        let mut buffered = handle.buffer.lock_buffer_only();
        // The way of a sequential stream.
        if let (Some(offset), [part], 0) = (place.offset(), memory.parts(), *flags)
            && offset <= FAR
            && buffered.is_dirty()
            && buffered.failed.is_none()
            && part.iov_len > 0
            && memory.may_be_there()
            && handle.may_buffer(file, &buffered)
            && file.appends() == buffered.appended
        {
            let offset = if buffered.appended { buffered.extents.tail_end() } else { offset };
            let end = offset + part.iov_len as u64;
            // SAFETY: the program guarantees that they are valid.
            let bytes = unsafe { std::slice::from_raw_parts(part.iov_base.cast(), part.iov_len) };
            if end <= limit() {
                let appended = buffered.extents.append(offset, bytes);
                if appended != Appended::No {
                    place.set(end);
                    let full = appended == Appended::Full;
                    if full && next.answers_first() && self.defer(&mut buffered, handle, next) {
                        return Ok(part.iov_len as u64);
                    }
                    if appended != Appended::Yes {
                        self.after_append(buffered, handle, offset..end, next);
                    }
                    return Ok(part.iov_len as u64);
                }
            }
        }
        if buffered.deferred > 0 {
            handle.buffer.fetch_deferred(&mut buffered, &self.shared, next);
        }
        self.write_elsewhere(op, next, handle, place, buffered)
    }

    /// The tail is full, and is not to keep the program waiting.
    fn defer(
        &self,
        buffered: &mut BufferContents,
        handle: &WriteBackHandle,
        next: Next<'_>,
    ) -> bool {
        handle.buffer.touch(&self.shared);
        handle.buffer.defer(buffered, &self.shared, next)
    }

    /// The tail has taken more memory, or is full.
    #[cold]
    fn after_append(
        &self,
        mut buffered: Locked<'_, BufferContents>,
        handle: &WriteBackHandle,
        range: Range<u64>,
        next: Next<'_>,
    ) {
        buffered.after_append(range, &self.shared, next);
        handle.buffer.touch(&self.shared);
        drop(buffered);
        if self.shared.is_full() {
            self.shared.evict(next);
        }
    }

    /// A write that does not just continue the last one.
    fn write_elsewhere(
        &self,
        op: &mut Op<'_>,
        next: Next<'_>,
        handle: &WriteBackHandle,
        mut place: CallPosition<'_>,
        mut buffered: Locked<'_, BufferContents>,
    ) -> Outcome {
        let Action::Write { file, memory, flags, .. } = &mut op.action else {
            return next.call(op);
        };
        let (file, flags, count) = (*file, *flags, memory.len() as u64);
        let Some(offset) = place.offset() else {
            buffered.settle(&self.shared, next)?;
            drop(buffered);
            return next.call(op);
        };
        let appends = file.appends();
        let end = offset.saturating_add(count);
        if flags == 0
            && count > 0
            && count < self.shared.block
            && handle.may_buffer(file, &buffered)
            && end <= limit()
            && memory.may_be_there()
        {
            if buffered.failed.is_some() || buffered.is_dirty() && buffered.appended != appends {
                buffered.settle(&self.shared, next)?;
            }
            let offset = match appends {
                true if buffered.is_dirty() => buffered.extents.end(),
                true => position::size(file, next)?,
                false => offset,
            };
            let end = offset.saturating_add(count);
            if end <= limit() {
                if !buffered.is_dirty() {
                    buffered.begin(file, appends, &self.shared);
                }
                buffered.take(offset, memory, &self.shared, next);
                place.set(end);
                handle.buffer.touch(&self.shared);
                drop(buffered);
                if self.shared.is_full() {
                    self.shared.evict(next);
                }
                return Ok(count);
            }
        }
        // It goes straight through, after what it overlaps or touches.
        if flags != 0 || appends || buffered.appended || buffered.failed.is_some() {
            buffered.settle(&self.shared, next)?;
        } else {
            let touching = offset.saturating_sub(1)..end.saturating_add(1);
            buffered.write_out(touching, &self.shared, next)?;
        }
        drop(buffered);
        place.write(op, next)
    }

    pub(super) fn read(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Read { file, at, .. } = &op.action else { return next.call(op) };
        let file = *file;
        let Some(handle) = file.state::<WriteBackHandle>(next.slot()) else { return next.call(op) };
        let mut place = CallPosition::of(file, *at)?;
        let mut buffered = handle.buffer.lock(&self.shared, next);
        let Some(offset) = place.offset() else {
            buffered.settle(&self.shared, next)?;
            drop(buffered);
            return next.call(op);
        };
        let done = if buffered.is_dirty() {
            read_over(&buffered, op, offset, next)?
        } else {
            drop(buffered);
            forward_at(op, next, Some(offset))?
        };
        place.advance(done);
        Ok(done)
    }
}

/// Beyond this nothing is buffered: the kernel says what it says.
#[inline]
fn limit() -> u64 {
    limits::file_size().min(FAR)
}

/// Reads a file of which something is buffered.
fn read_over(buffered: &BufferContents, op: &mut Op<'_>, offset: u64, next: Next<'_>) -> Outcome {
    let Action::Read { file, memory, .. } = &mut op.action else { return next.call(op) };
    let length = memory.len() as u64;
    let there = memory.may_be_there();
    if !there || !file.is_readable() || length == 0 || offset >= i64::MAX as u64 - length {
        return forward_at(op, next, Some(offset));
    }
    let range = offset..offset + length;
    let covered = buffered.extents.covered(range);
    if covered == length {
        buffered.extents.overlay(offset, memory);
        return Ok(length);
    }
    let end = buffered.extents.end();
    let found = forward_at(op, next, Some(offset))?;
    let Action::Read { memory, .. } = &mut op.action else { return Ok(found) };
    // What is buffered makes the file longer; what was not written between is zero.
    let all = end.saturating_sub(offset).min(length).max(found);
    zero(memory, found as usize..all as usize);
    if covered > 0 {
        buffered.extents.overlay(offset, memory);
    }
    Ok(all)
}

fn zero(memory: &mut Memory<'_>, range: Range<usize>) {
    for slice in &mut memory.range(range).slices_mut() {
        slice.fill(0);
    }
}
