//! Moving data to where a new header says that it lies.
//!
//! Nothing moves down, so whatever lies highest moves first: then no byte is overwritten before it was
//! read. In each round all ranks read their shares of some megabytes, and write them when all have read.

use striate_datatype::{Datatype, TypeError};
use striate_file::Placement;

use crate::ArrayError;
use crate::format::Header;
use crate::state::State;

/// Bytes that a rank moves in a round.
const SHARE: u64 = 4 << 20;
/// Pieces of a round.
const PIECES: usize = 1 << 14;

/// Contiguous bytes that move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    from: u64,
    to: u64,
    len: u64,
}

/// Moves everything that lies elsewhere in the new header, after the file was marked as unfinished. If
/// there is no room for it, the file stays as it is. Collective.
pub(crate) fn relocate(state: &mut State, before: &Header) -> Result<(), ArrayError> {
    let mut moves = reserve(state, before)?.peekable();
    state.on_first(State::mark_unfinished)?;
    while moves.peek().is_some() {
        let round = next_round(&mut moves, SHARE * state.comm.size() as u64);
        carry_out(state, &round)?;
    }
    Ok(())
}

/// Makes sure that there is room for what moves, and returns the moves. Collective.
pub(crate) fn reserve(
    state: &mut State,
    before: &Header,
) -> Result<impl Iterator<Item = Move> + use<>, ArrayError> {
    // Agreed, so that no rank looks when another has begun to write.
    let size = state.file.size().map_err(ArrayError::from);
    let own = *size.as_ref().unwrap_or(&0);
    let (_, [size]) = state.agree_with(size, [own])?;
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

/// All moves, the highest first. `None` if offsets overflow. What lies beyond the end of the file is
/// not there to be moved.
fn moves(before: &Header, after: &Header, file_len: u64) -> Option<Box<dyn Iterator<Item = Move>>> {
    let (mut fixed, mut records) = (Vec::new(), Vec::new());
    for (old, new) in before.variables.iter().zip(&after.variables) {
        let one = Move { from: old.begin, to: new.begin, len: before.slab_size(old)? };
        if before.is_record(old) { records.push(one) } else { fixed.push(one) }
    }
    fixed.sort_unstable_by_key(|one| one.from);
    records.sort_unstable_by_key(|one| one.from);
    let (count, apart, apart_after) = (before.records, before.record_size()?, after.record_size()?);
    // Nothing below overflows: the last record lies highest.
    let highest = records.iter().map(|one| one.to.max(one.from)).max().unwrap_or(0);
    count.checked_mul(apart.max(apart_after))?.checked_add(highest)?;

    let first = records.first().copied();
    let lowest = first.map_or(u64::MAX, |one| one.from);
    let behind = fixed.last().is_none_or(|one| one.from + one.len <= lowest);
    let inside = records.last().is_none_or(|one| one.from + one.len - lowest <= apart);
    let delta = first.map_or(0, |one| one.to - one.from);
    if let Some(first) = first
        && inside
        && apart == apart_after
        && records.iter().all(|one| one.to - one.from == delta)
    {
        // The records keep their form: they are one piece.
        fixed.push(Move { len: count * apart, ..first });
        fixed.sort_unstable_by_key(|one| one.from);
        records.clear();
    }
    let of_records = (0..count).rev().flat_map(move |record| {
        let of_record = records.clone().into_iter().rev();
        of_record.map(move |one| Move {
            from: one.from + record * apart,
            to: one.to + record * apart_after,
            len: one.len,
        })
    });
    let all = of_records.chain(fixed.into_iter().rev()).filter_map(move |one| {
        let len = one.len.min(file_len.saturating_sub(one.from));
        (one.from != one.to && len > 0).then_some(Move { len, ..one })
    });
    if behind && inside {
        return Some(Box::new(all));
    }
    // Nobody writes such files: records between fixed variables, or in each other's way.
    let mut all: Vec<Move> = all.collect();
    all.sort_unstable_by_key(|one| std::cmp::Reverse(one.from));
    Some(Box::new(all.into_iter()))
}

/// The moves of one round, in ascending order. A move that is too long is cut: its end goes first.
fn next_round(
    moves: &mut std::iter::Peekable<impl Iterator<Item = Move>>,
    limit: u64,
) -> Vec<Move> {
    let mut round: Vec<Move> = Vec::new();
    let mut room = limit;
    while let Some(next) = moves.peek_mut() {
        let below =
            |last: &Move| next.from + next.len <= last.from && next.to + next.len <= last.to;
        if room == 0 || round.len() == PIECES || !round.last().is_none_or(below) {
            break;
        }
        let len = next.len.min(room);
        let rest = next.len - len;
        round.push(Move { from: next.from + rest, to: next.to + rest, len });
        room -= len;
        if rest > 0 {
            next.len = rest;
        } else {
            moves.next();
        }
    }
    round.reverse();
    round
}

/// Carries out a round: each rank moves its share. Collective.
fn carry_out(state: &mut State, round: &[Move]) -> Result<(), ArrayError> {
    let total: u64 = round.iter().map(|one| one.len).sum();
    let (rank, ranks) = (state.comm.rank() as u64, state.comm.size() as u64);
    let share = share(round, total * rank / ranks, total * (rank + 1) / ranks);
    let mut buffer = vec![0; share.iter().map(|one| one.len).sum::<u64>() as usize];
    let read = place(share.iter().map(|one| (one.from, one.len)))
        .map_err(ArrayError::from)
        .and_then(|place| Ok(state.file.read_in(&place, &mut buffer)?));
    state.agree(read)?;
    let written = place(share.iter().map(|one| (one.to, one.len)))
        .map_err(ArrayError::from)
        .and_then(|place| Ok(state.file.write_in(&place, &buffer)?));
    state.agree(written)?;
    Ok(())
}

/// The bytes from `start` to `end` of the moves' stream.
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

/// Pieces of the file.
fn place(pieces: impl Iterator<Item = (u64, u64)>) -> Result<Placement, TypeError> {
    let blocks: Vec<(u64, i64)> = pieces.map(|(offset, len)| (len, offset as i64)).collect();
    let datatype = Datatype::hindexed(&blocks, &Datatype::bytes(1)?)?;
    let len = datatype.size();
    Ok(Placement { displacement: 0, datatype, start: 0, len })
}
