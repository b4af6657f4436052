//! Reads and writes of write-back.

use std::ops::Range;

use striate_process::limits;
use striate_process::lock::Locked;
use striate_stack::{Action, Memory, Next, Op, Outcome};

use super::buffer::Held;
use super::extents::Appended;
use super::{Handle, WriteBack};
use crate::position::{self, FAR, Place, forward_at};

impl WriteBack {
    #[inline]
    pub(super) fn write(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Write { file, memory, at, flags } = &op.action else { return next.call(op) };
        let file = *file;
        let Some(handle) = file.state::<Handle>(next.slot()) else { return next.call(op) };
        let mut place = Place::of(file, *at)?;
        let mut held = handle.buffer.lock_beside();
        // The way of a sequential stream.
        if let (Some(offset), [part], 0) = (place.offset(), memory.parts(), *flags)
            && offset <= FAR
            && held.is_holding()
            && held.failed.is_none()
            && part.iov_len > 0
            && memory.may_be_there()
            && handle.may_hold(file, &held)
            && file.appends() == held.appended
        {
            let offset = if held.appended { held.extents.tail_end() } else { offset };
            let end = offset + part.iov_len as u64;
            // SAFETY: the program says that they are there.
            let bytes = unsafe { std::slice::from_raw_parts(part.iov_base.cast(), part.iov_len) };
            if end <= limit() {
                let appended = held.extents.append(offset, bytes);
                if appended != Appended::No {
                    place.set(end);
                    let full = appended == Appended::Full;
                    if full && next.answers_first() && self.put_aside(&mut held, handle, next) {
                        return Ok(part.iov_len as u64);
                    }
                    if appended != Appended::Yes {
                        self.after_append(held, handle, offset..end, next);
                    }
                    return Ok(part.iov_len as u64);
                }
            }
        }
        if held.aside > 0 {
            handle.buffer.fetch_aside(&mut held, &self.shared, next);
        }
        self.write_elsewhere(op, next, handle, place, held)
    }

    /// The tail is full, and is not to keep the program waiting.
    fn put_aside(&self, held: &mut Held, handle: &Handle, next: Next<'_>) -> bool {
        handle.buffer.touch(&self.shared);
        handle.buffer.put_aside(held, &self.shared, next)
    }

    /// The tail has taken more memory, or is full.
    #[cold]
    fn after_append(
        &self,
        mut held: Locked<'_, Held>,
        handle: &Handle,
        range: Range<u64>,
        next: Next<'_>,
    ) {
        held.after_append(range, &self.shared, next);
        handle.buffer.touch(&self.shared);
        drop(held);
        if self.shared.is_full() {
            self.shared.evict(next);
        }
    }

    /// A write that does not just continue the last one.
    fn write_elsewhere(
        &self,
        op: &mut Op<'_>,
        next: Next<'_>,
        handle: &Handle,
        mut place: Place<'_>,
        mut held: Locked<'_, Held>,
    ) -> Outcome {
        let Action::Write { file, memory, flags, .. } = &mut op.action else {
            return next.call(op);
        };
        let (file, flags, count) = (*file, *flags, memory.len() as u64);
        let Some(offset) = place.offset() else {
            held.settle(&self.shared, next)?;
            drop(held);
            return next.call(op);
        };
        let appends = file.appends();
        let end = offset.saturating_add(count);
        if flags == 0
            && count > 0
            && count < self.shared.block
            && handle.may_hold(file, &held)
            && end <= limit()
            && memory.may_be_there()
        {
            if held.failed.is_some() || held.is_holding() && held.appended != appends {
                held.settle(&self.shared, next)?;
            }
            let offset = match appends {
                true if held.is_holding() => held.extents.end(),
                true => position::size(file, next)?,
                false => offset,
            };
            let end = offset.saturating_add(count);
            if end <= limit() {
                if !held.is_holding() {
                    held.begin(file, appends, &self.shared);
                }
                held.take(offset, memory, &self.shared, next);
                place.set(end);
                handle.buffer.touch(&self.shared);
                drop(held);
                if self.shared.is_full() {
                    self.shared.evict(next);
                }
                return Ok(count);
            }
        }
        // It goes straight through, after what it overlaps or touches.
        if flags != 0 || appends || held.appended || held.failed.is_some() {
            held.settle(&self.shared, next)?;
        } else {
            let touching = offset.saturating_sub(1)..end.saturating_add(1);
            held.write_out(touching, &self.shared, next)?;
        }
        drop(held);
        place.write(op, next)
    }

    pub(super) fn read(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let Action::Read { file, at, .. } = &op.action else { return next.call(op) };
        let file = *file;
        let Some(handle) = file.state::<Handle>(next.slot()) else { return next.call(op) };
        let mut place = Place::of(file, *at)?;
        let mut held = handle.buffer.lock(&self.shared, next);
        let Some(offset) = place.offset() else {
            held.settle(&self.shared, next)?;
            drop(held);
            return next.call(op);
        };
        let done = if held.is_holding() {
            read_over(&held, op, offset, next)?
        } else {
            drop(held);
            forward_at(op, next, Some(offset))?
        };
        place.advance(done);
        Ok(done)
    }
}

/// Beyond this nothing is held: the kernel says what it says.
#[inline]
fn limit() -> u64 {
    limits::file_size().min(FAR)
}

/// Reads a file of which something is held.
fn read_over(held: &Held, op: &mut Op<'_>, offset: u64, next: Next<'_>) -> Outcome {
    let Action::Read { file, memory, .. } = &mut op.action else { return next.call(op) };
    let length = memory.len() as u64;
    let there = memory.may_be_there();
    if !there || !file.is_readable() || length == 0 || offset >= i64::MAX as u64 - length {
        return forward_at(op, next, Some(offset));
    }
    let range = offset..offset + length;
    let covered = held.extents.covered(range);
    if covered == length {
        held.extents.overlay(offset, memory);
        return Ok(length);
    }
    let end = held.extents.end();
    let found = forward_at(op, next, Some(offset))?;
    let Action::Read { memory, .. } = &mut op.action else { return Ok(found) };
    // What is held makes the file longer; what nobody wrote between is zero.
    let all = end.saturating_sub(offset).min(length).max(found);
    zero(memory, found as usize..all as usize);
    if covered > 0 {
        held.extents.overlay(offset, memory);
    }
    Ok(all)
}

fn zero(memory: &mut Memory<'_>, range: Range<usize>) {
    for slice in &mut memory.range(range).slices_mut() {
        slice.fill(0);
    }
}
