//! Moves data to the offsets of a new header, after a redefinition.
//!
//! Data never moves towards the start of the file, so the data at the highest offsets moves first:
//! then no byte is overwritten before it was read. In each round every rank reads its share of a
//! few megabytes, and writes it after all ranks have read.

use crate::file_state::FileState;
use crate::format::Header;
use crate::{ArrayError, placement};

/// Bytes that a rank moves in a round.
const SHARE: u64 = 4 << 20;
/// Moves of a round at most.
const MAX_MOVES: usize = 1 << 14;

/// A contiguous range of bytes that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    from: u64,
    to: u64,
    len: u64,
}

/// Moves all data whose offset differs in the new header, after marking the file as unfinished. If
/// the file system has no space for it, the file does not change. Collective.
pub(crate) fn relocate(state: &mut FileState, before: &Header) -> Result<(), ArrayError> {
    let mut moves = reserve(state, before)?.peekable();
    state.on_rank_0(FileState::mark_unfinished)?;
    while moves.peek().is_some() {
        let round = next_round(&mut moves, SHARE * state.comm.size() as u64);
        execute(state, &round)?;
    }
    Ok(())
}

/// Allocates the space that the moves need, and returns the moves. Collective.
pub(crate) fn reserve(
    state: &mut FileState,
    before: &Header,
) -> Result<impl Iterator<Item = Move> + use<>, ArrayError> {
    // The agreement ensures that no rank asks for the size after another has begun to write.
    let size = state.file.size().map_err(ArrayError::from);
    let own = *size.as_ref().unwrap_or(&0);
    let (_, [size]) = state.agree_with_max(size, [own])?;
    let Some(moves) = moves(before, &state.header, size) else {
        let what = "redefinition".into();
        let reason = "data would move beyond what a file can hold".into();
        return Err(ArrayError::Definition { what, reason });
    };
    let mut moves = moves.peekable();
    if let Some(highest) = moves.peek() {
        state.file.preallocate(highest.to + highest.len)?;
    }
    Ok(moves)
}

/// All moves, the highest offset first; `None` if offsets overflow. What the header places beyond
/// the end of the file does not move.
fn moves(before: &Header, after: &Header, file_len: u64) -> Option<Box<dyn Iterator<Item = Move>>> {
    let (mut fixed, mut records) = (Vec::new(), Vec::new());
    for (old, new) in before.variables.iter().zip(&after.variables) {
        let one = Move { from: old.begin, to: new.begin, len: before.slab_size(old)? };
        if before.is_record(old) { records.push(one) } else { fixed.push(one) }
    }
    fixed.sort_unstable_by_key(|one| one.from);
    records.sort_unstable_by_key(|one| one.from);
    let (count, distance, distance_after) =
        (before.records, before.record_size()?, after.record_size()?);
    // Nothing below overflows: the last record has the highest offset.
    let highest = records.iter().map(|one| one.to.max(one.from)).max().unwrap_or(0);
    count.checked_mul(distance.max(distance_after))?.checked_add(highest)?;

    let first = records.first().copied();
    let lowest = first.map_or(u64::MAX, |one| one.from);
    let records_follow = fixed.last().is_none_or(|one| one.from + one.len <= lowest);
    let inside = records.last().is_none_or(|one| one.from + one.len - lowest <= distance);
    let delta = first.map_or(0, |one| one.to - one.from);
    if let Some(first) = first
        && inside
        && distance == distance_after
        && records.iter().all(|one| one.to - one.from == delta)
    {
        // The records keep their layout: they move as one range.
        fixed.push(Move { len: count * distance, ..first });
        fixed.sort_unstable_by_key(|one| one.from);
        records.clear();
    }
    let of_records = (0..count).rev().flat_map(move |record| {
        let of_record = records.clone().into_iter().rev();
        of_record.map(move |one| Move {
            from: one.from + record * distance,
            to: one.to + record * distance_after,
            len: one.len,
        })
    });
    let all = of_records.chain(fixed.into_iter().rev()).filter_map(move |one| {
        let len = one.len.min(file_len.saturating_sub(one.from));
        (one.from != one.to && len > 0).then_some(Move { len, ..one })
    });
    if records_follow && inside {
        return Some(Box::new(all));
    }
    // Records between fixed variables, or overlapping records: no known library writes such files.
    let mut all: Vec<Move> = all.collect();
    all.sort_unstable_by_key(|one| std::cmp::Reverse(one.from));
    Some(Box::new(all.into_iter()))
}

/// The moves of one round, in ascending order. Of a move that is too long, the end comes first.
fn next_round(
    moves: &mut std::iter::Peekable<impl Iterator<Item = Move>>,
    limit: u64,
) -> Vec<Move> {
    let mut round: Vec<Move> = Vec::new();
    let mut remaining = limit;
    while let Some(next) = moves.peek_mut() {
        let below =
            |last: &Move| next.from + next.len <= last.from && next.to + next.len <= last.to;
        if remaining == 0 || round.len() == MAX_MOVES || !round.last().is_none_or(below) {
            break;
        }
        let len = next.len.min(remaining);
        let rest = next.len - len;
        round.push(Move { from: next.from + rest, to: next.to + rest, len });
        remaining -= len;
        if rest > 0 {
            next.len = rest;
        } else {
            moves.next();
        }
    }
    round.reverse();
    round
}

/// Executes a round: each rank moves its share. Collective.
fn execute(state: &mut FileState, round: &[Move]) -> Result<(), ArrayError> {
    let total: u64 = round.iter().map(|one| one.len).sum();
    let (rank, ranks) = (state.comm.rank() as u64, state.comm.size() as u64);
    let share = share(round, total * rank / ranks, total * (rank + 1) / ranks);
    let mut buffer = vec![0; share.iter().map(|one| one.len).sum::<u64>() as usize];
    let read = placement::regions(share.iter().map(|one| (one.from, one.len)))
        .map_err(ArrayError::from)
        .and_then(|placement| Ok(state.file.read_in(&placement, &mut buffer)?));
    state.agree(read)?;
    let written = placement::regions(share.iter().map(|one| (one.to, one.len)))
        .map_err(ArrayError::from)
        .and_then(|placement| Ok(state.file.write_in(&placement, &buffer)?));
    state.agree(written)?;
    Ok(())
}

/// The part of a round from byte `start` to byte `end`, counted over all of its moves.
fn share(round: &[Move], start: u64, end: u64) -> Vec<Move> {
    let mut position = 0;
    let mut share = Vec::new();
    for one in round {
        let (low, high) = (start.max(position), end.min(position + one.len));
        if low < high {
            let skip = low - position;
            share.push(Move { from: one.from + skip, to: one.to + skip, len: high - low });
        }
        position += one.len;
    }
    share
}
