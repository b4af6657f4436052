//! **align**: cuts reads and writes at multiples of a stripe.
//!
//! On parallel file systems a request that crosses the boundary of a stripe without need makes two
//! servers work on parts of a stripe, and locks both. This stage splits a request at the first and
//! the last boundary within it: between them are whole stripes, in one request or several. Requests
//! within one stripe are not changed. A request with several memory buffers (`writev`) gets one, so
//! that stages below see one piece.
//!
//! # Options
//!
//! | option | default | meaning |
//! | --- | --- | --- |
//! | `stripe` | `"1MiB"` | Where requests are cut: multiples of this. |
//! | `largest` | none | Whole stripes that go together, as bytes: a multiple of `stripe`. None: all. `largest` equal to `stripe` cuts at every boundary. |
//! | `merge` | `true` | Copy the parts of a vectored request together. |
//!
//! # What programs observe
//!
//! The same. A request of which a later piece fails returns what was done before, as after a short
//! read or write; the error comes with the next.
//!
//! # What is late for other processes
//!
//! Nothing. But one `write` may reach the file as several: a concurrent reader may see a part of
//! it.
//!
//! # Limits
//!
//! Writes to the end of a file (`O_APPEND`) and requests with `RWF_…` flags are not split, because
//! they must stay atomic. Memory for `O_DIRECT` is not merged. The stage belongs below write-back,
//! or is used alone; above write-back it has no effect.

use std::sync::Arc;

use serde::Deserialize;
use striate_calls::{Kind, Kinds};
use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{Action, Classification, Memory, Next, Op, OpenFile, Outcome, Stage};
use toml::Table;

use super::position::{self, CallPosition, appends, forward_at};
use super::size::Size;

/// The kind of stage.
pub(super) const CLASSIFICATION: Classification = Classification {
    scope: Scope::Data,
    interference: Interference::OneOperation,
    state: State::Stateless,
    meaning: Meaning::Kept,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AlignOptions {
    stripe: Size,
    largest: Option<Size>,
    merge: bool,
}

impl Default for AlignOptions {
    fn default() -> Self {
        Self { stripe: Size(1 << 20), largest: None, merge: true }
    }
}

/// The stage.
#[derive(Debug)]
struct Align {
    stripe: u64,
    largest: u64,
    merge: bool,
}

/// Makes one.
pub(super) fn build(table: Table) -> Result<Box<dyn Stage>, String> {
    let options: AlignOptions =
        toml::Value::Table(table).try_into().map_err(|error| error.to_string())?;
    let stripe = options.stripe.0;
    if stripe == 0 {
        return Err("stripe: at least 1 byte".into());
    }
    let largest = options.largest.map_or(u64::MAX, |largest| largest.0);
    if largest < stripe || largest != u64::MAX && !largest.is_multiple_of(stripe) {
        return Err("largest: a multiple of stripe".into());
    }
    Ok(Box::new(Align { stripe, largest, merge: options.merge }))
}

impl Stage for Align {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Read, Kind::Write, Kind::Seek, Kind::CopyRange, Kind::SendFile])
    }

    fn classification(&self) -> Classification {
        CLASSIFICATION
    }

    fn holds_back(&self) -> bool {
        // The position.
        true
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        match &op.action {
            Action::Read { file, at, flags, .. } => {
                let file = *file;
                let mut place = CallPosition::of(file, *at)?;
                match (place.offset(), *flags) {
                    (Some(offset), 0) => {
                        let count = self.cut(op, file, offset, next)?;
                        place.advance(count);
                        Ok(count)
                    }
                    _ => place.read(op, next),
                }
            }
            Action::Write { file, at, flags, .. } => {
                let file = *file;
                let mut place = CallPosition::of(file, *at)?;
                match (place.offset(), *flags) {
                    (Some(offset), 0) if !appends(file, 0) => {
                        let count = self.cut(op, file, offset, next)?;
                        place.advance(count);
                        Ok(count)
                    }
                    _ => place.write(op, next),
                }
            }
            Action::Seek { .. } => position::seek(op, next, |file| position::size(file, next)),
            Action::CopyRange { .. } | Action::SendFile { .. } => {
                position::transfer(op, next, |_| true)
            }
            _ => next.call(op),
        }
    }
}

impl Align {
    /// How many bytes of a request go with its first piece.
    fn piece(&self, at: u64, length: u64) -> u64 {
        let to_boundary = self.stripe - at % self.stripe;
        if to_boundary < self.stripe || length < self.stripe {
            return length.min(to_boundary);
        }
        (length - length % self.stripe).min(self.largest)
    }

    /// Forwards a read or write in pieces.
    fn cut(&self, op: &mut Op<'_>, file: &Arc<OpenFile>, offset: u64, next: Next<'_>) -> Outcome {
        let (function, route) = (op.function, op.route);
        let (reads, memory) = match &mut op.action {
            Action::Read { memory, .. } => (true, memory),
            Action::Write { memory, .. } => (false, memory),
            _ => return next.call(op),
        };
        let length = memory.len() as u64;
        let merges = self.merge
            && memory.parts().len() > 1
            && memory.may_be_there()
            && file.flags() & libc::O_DIRECT == 0;
        let whole = self.piece(offset, length) == length && !merges;
        // Of nothing the kernel still says whether it may be read or written.
        if whole
            || length == 0
            || offset.checked_add(length).is_none_or(|end| end > i64::MAX as u64)
        {
            return forward_at(op, next, Some(offset));
        }
        let mut done = 0;
        while done < length {
            let at = offset + done;
            let count = self.piece(at, length - done);
            let mut piece = memory.range(done as usize..(done + count) as usize);
            let forward = |memory: Memory<'_>| {
                let at = Some(at);
                let action = if reads {
                    Action::Read { file, memory, at, flags: 0 }
                } else {
                    Action::Write { file, memory, at, flags: 0 }
                };
                next.call(&mut Op { function, route, action })
            };
            let outcome = match (merges, reads) {
                (false, _) => forward(piece),
                (true, true) => {
                    let mut bytes = vec![0; piece.len()];
                    let outcome = forward(Memory::sink(&mut bytes));
                    if let Ok(count) = outcome {
                        piece.fill(0, &bytes[..count as usize]);
                    }
                    outcome
                }
                (true, false) => {
                    let mut bytes = Vec::with_capacity(piece.len());
                    piece.append_to(0..piece.len(), &mut bytes);
                    forward(Memory::source(&bytes))
                }
            };
            match outcome {
                Ok(moved) => {
                    done += moved;
                    if moved < count {
                        break;
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(align: &Align, mut at: u64, mut length: u64) -> Vec<(u64, u64)> {
        let mut pieces = Vec::new();
        while length > 0 {
            let count = align.piece(at, length);
            pieces.push((at, count));
            (at, length) = (at + count, length - count);
        }
        pieces
    }

    #[test]
    fn requests_are_cut_at_the_first_and_the_last_boundary() {
        let align = Align { stripe: 100, largest: u64::MAX, merge: true };
        for (at, length, expected) in [
            (10, 20, vec![(10, 20)]),
            (0, 100, vec![(0, 100)]),
            (10, 90, vec![(10, 90)]),
            (10, 100, vec![(10, 90), (100, 10)]),
            (10, 500, vec![(10, 90), (100, 400), (500, 10)]),
            (200, 300, vec![(200, 300)]),
            (200, 350, vec![(200, 300), (500, 50)]),
        ] {
            assert_eq!(pieces(&align, at, length), expected, "{length} at {at}");
        }
        let every = Align { stripe: 100, largest: 200, merge: true };
        assert_eq!(
            pieces(&every, 50, 600),
            [(50, 50), (100, 200), (300, 200), (500, 100), (600, 50)]
        );
    }
}
