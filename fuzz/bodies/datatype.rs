//! What the fuzz targets assert, as plain functions of bytes.
//!
//! The tests of the crate run them too, with a stable compiler and a fixed sequence of inputs. A
//! description of a few bytes can stand for 2^63 of them, so nothing here walks, flattens or
//! allocates by size; a bounded number of runs is looked at from several positions, and packing is
//! tried where little memory is enough.
#![allow(dead_code, unreachable_pub, reason = "each target uses a part")]

use striate_datatype::notation::{Notation, NotationError};
use striate_datatype::{
    Cursor, Datatype, MAX_DEPTH, MAX_NODES, Packer, Piece, Pieces, Run, TypeError,
};

/// Runs looked at from one position.
const RUNS: usize = 64;

/// Deepest nest whose text is parsed again: the notation may need two words for one loop, and two
/// for where the whole lies.
const TEXT_DEPTH: u32 = (MAX_DEPTH - 3) / 2;

/// Farthest offset of a type whose text is parsed again. Elsewhere the bounds of the parts, which
/// the text cannot leave out, may need more than 64 bits though no byte of the whole does.
const TEXT_REACH: i64 = 1 << 56;

/// Farthest byte from the origin, and longest stream, that packing is tried with.
const MEMORY: i64 = 4096;

/// Bytes from outside as a datatype.
pub fn decode(bytes: &[u8]) {
    match Datatype::decode(bytes) {
        Ok(ty) => {
            assert_eq!(ty.encode(), bytes, "there is one encoding");
            check(&ty);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Text from outside as a datatype.
pub fn notation(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let notation: Notation = match text.parse() {
        Ok(notation) => notation,
        Err(error) => return check_error(text, &error),
    };
    let printed = notation.to_string();
    assert_eq!(printed.parse().as_ref(), Ok(&notation), "{printed}");
    let Ok(ty) = notation.build() else {
        // The listing stops at the error or does without building.
        let _ = notation.loops();
        return;
    };
    assert!(notation.loops().is_ok_and(|lines| !lines.is_empty()), "{printed}");
    check(&ty);
}

/// An error points into the text.
fn check_error(text: &str, error: &NotationError) {
    assert!(!error.to_string().is_empty());
    if let NotationError::Syntax { position, .. }
    | NotationError::Number { position, .. }
    | NotationError::TooDeep { position } = error
    {
        assert!(text.is_char_boundary(*position), "{position} in {text:?}");
    }
}

/// Everything that holds of every datatype.
fn check(ty: &Datatype) {
    assert!(ty.root().nodes() <= MAX_NODES);
    check_summary(ty);
    check_forms(ty);
    for count in [0, 1, 3] {
        match Cursor::new(ty, count) {
            Ok(cursor) => {
                let copies = Copies::new(ty, count);
                assert_eq!(cursor.remaining(), copies.total);
                check_walk(&copies, cursor.clone());
                check_windows(&copies, cursor.clone());
                check_pieces(&copies, cursor.clone());
                check_packing(&copies, cursor);
            }
            // One copy has been checked by the constructor; three may not fit.
            Err(error) => assert!(count > 1, "{error} for {count} copies of {ty}"),
        }
    }
}

/// The numbers that are known without walking agree with each other.
fn check_summary(ty: &Datatype) {
    let (low, high) = (ty.true_lower_bound(), ty.true_upper_bound());
    assert!(ty.depth() <= MAX_DEPTH);
    assert_eq!(ty.lower_bound().checked_add(ty.extent()), Some(ty.upper_bound()));
    assert_eq!(high.checked_sub(low).map(|len| len as u64), Some(ty.true_extent()), "{ty}");
    assert_eq!(ty.is_contiguous(), ty.runs() <= 1);
    assert!(ty.density().is_finite());
    assert!(ty.is_ascending() || !ty.is_monotonic());
    if ty.size() == 0 {
        assert_eq!((ty.runs(), ty.first_offset(), low, high), (0, 0, 0, 0));
        return;
    }
    assert!((1..=ty.size()).contains(&ty.runs()), "{ty}");
    assert!((low..high).contains(&ty.first_offset()), "{ty}");
    if ty.is_ascending() {
        assert!(ty.size() <= ty.true_extent() && low == ty.first_offset(), "{ty}");
    }
    if ty.is_contiguous() {
        assert_eq!((ty.size(), ty.depth()), (ty.true_extent(), 0), "{ty}");
    }
    assert_eq!(ty.is_monotonic(), ty.is_ascending() && low >= 0 && Copies::new(ty, 2).ascend);
}

/// The binary form and the text stand for the type.
fn check_forms(ty: &Datatype) {
    let bytes = ty.encode();
    let decoded = Datatype::decode(&bytes);
    assert_eq!(decoded.as_ref(), Ok(ty), "{ty}");
    assert!(!ty.loops().is_empty());
    let text = ty.to_string();
    let reach = -TEXT_REACH..=TEXT_REACH;
    match text.parse::<Datatype>() {
        Ok(parsed) => assert_eq!(&parsed, ty, "{text}"),
        Err(NotationError::TooDeep { .. }) => assert!(ty.depth() > TEXT_DEPTH, "{text}"),
        Err(error) => assert!(
            matches!(error, NotationError::Type(TypeError::Overflow { .. }))
                && !(reach.contains(&ty.true_lower_bound())
                    && reach.contains(&ty.true_upper_bound())),
            "{error}: {text}"
        ),
    }
}

/// A number of copies, and what is known of all of them.
struct Copies<'t> {
    ty: &'t Datatype,
    count: u64,
    total: u64,
    low: i128,
    high: i128,
    ascend: bool,
}

impl<'t> Copies<'t> {
    fn new(ty: &'t Datatype, count: u64) -> Self {
        let extent = i128::from(ty.extent());
        let reach = i128::from(count.max(1) - 1) * extent;
        Self {
            ty,
            count,
            total: ty.size().saturating_mul(count),
            low: i128::from(ty.true_lower_bound()) + reach.min(0),
            high: i128::from(ty.true_upper_bound()) + reach.max(0),
            ascend: ty.is_ascending()
                && (count < 2 || ty.size() == 0 || extent >= i128::from(ty.true_extent())),
        }
    }

    fn positions(&self) -> [u64; 5] {
        let total = self.total;
        [0, total / 3, total / 2, total.saturating_sub(1), total]
    }
}

/// A cursor finds every place again: by walking on, by seeking, and in smaller steps.
fn check_walk(copies: &Copies<'_>, mut cursor: Cursor<'_>) {
    let Copies { ty, total, .. } = *copies;
    for position in copies.positions() {
        cursor.seek(position);
        assert_eq!((cursor.position(), cursor.remaining()), (position, total - position));
        let mut walker = cursor.clone();
        let mut at = position;
        let mut before: Option<Run> = None;
        let mut runs = 0;
        for run in walker.by_ref().take(RUNS) {
            assert!(run.len > 0, "{ty}");
            assert!(copies.low <= i128::from(run.offset), "{run:?} of {ty}");
            assert!(i128::from(run.offset) + i128::from(run.len) <= copies.high, "{run:?} of {ty}");
            if let Some(before) = before {
                assert_ne!(before.end(), run.offset, "runs are coalesced: {ty}");
                assert!(!copies.ascend || before.end() < run.offset, "{ty}");
            }
            cursor.seek(at);
            assert_eq!(cursor.offset(), Some(run.offset), "byte {at} of {ty}");
            let half = run.len.div_ceil(2);
            let rest = Run { offset: run.offset + half as i64, len: run.len - half };
            assert_eq!(cursor.next_run(half), Some(Run { len: half, ..run }), "{ty}");
            assert_eq!(cursor.next_run(rest.len), (rest.len > 0).then_some(rest), "{ty}");
            at += run.len;
            assert_eq!(cursor.position(), at);
            before = Some(run);
            runs += 1;
        }
        assert_eq!(walker.position(), at);
        if position == 0 && copies.count == 1 {
            assert_eq!(runs, ty.runs().min(RUNS as u64), "{ty}");
            assert!(runs == RUNS as u64 || at == total, "{ty}");
        }
    }
    cursor.seek(u64::MAX);
    assert_eq!((cursor.position(), cursor.offset(), cursor.next()), (total, None, None));
}

/// A window holds what lies inside, and only types whose bytes ascend have one.
fn check_windows(copies: &Copies<'_>, mut cursor: Cursor<'_>) {
    let Copies { ty, count, total, .. } = *copies;
    let all = i64::MIN..i64::MAX;
    if !copies.ascend {
        assert_eq!(ty.window(count, all).err(), Some(TypeError::NotMonotonic));
        return;
    }
    let before = |offset: i64| ty.bytes_before(count, offset).expect("the bytes ascend");
    assert_eq!((before(i64::MIN), before(i64::MAX)), (0, total), "{ty}");
    let everything: Vec<(u64, Run)> =
        ty.window(count, all).expect("the bytes ascend").take(RUNS).collect();
    assert_eq!(everything, numbered(cursor.clone()), "{ty}");
    for position in copies.positions() {
        cursor.seek(position);
        let Some(offset) = cursor.offset() else { continue };
        assert_eq!((before(offset), before(offset + 1)), (position, position + 1), "{ty}");
        let here = ty.window(count, offset..offset + 1).expect("the bytes ascend");
        assert_eq!(here.collect::<Vec<_>>(), [(position, Run { offset, len: 1 })], "{ty}");
        let runs = numbered(cursor.clone());
        for pair in runs.windows(2) {
            let [(_, run), (next_position, next)] = pair else { unreachable!() };
            assert_eq!(before(run.end()), *next_position, "gap after {run:?} in {ty}");
            let gap = ty.window(count, run.end()..next.offset).expect("the bytes ascend");
            assert_eq!(gap.count(), 0, "{ty}");
        }
        if let Some((_, last)) = runs.last() {
            let window = ty.window(count, offset..last.end()).expect("the bytes ascend");
            assert_eq!(window.take(RUNS + 1).collect::<Vec<_>>(), runs, "{ty}");
        }
    }
}

/// The next runs with their places in the stream.
fn numbered(cursor: Cursor<'_>) -> Vec<(u64, Run)> {
    let mut position = cursor.position();
    cursor
        .take(RUNS)
        .map(|run| {
            let at = position;
            position += run.len;
            (at, run)
        })
        .collect()
}

/// Against memory that lies together, the pieces are the runs.
fn check_pieces(copies: &Copies<'_>, mut cursor: Cursor<'_>) {
    let memory = Datatype::bytes(copies.total).expect("the size of a type fits");
    let mut memory_cursor = Cursor::new(&memory, 1).expect("one copy fits");
    let start = copies.total / 2;
    cursor.seek(start);
    memory_cursor.seek(start);
    let runs = numbered(cursor.clone());
    let pieces = Pieces::new(memory_cursor, cursor).take(RUNS);
    let expected =
        runs.iter().map(|&(at, run)| Piece { memory: at as i64, file: run.offset, len: run.len });
    assert!(pieces.eq(expected), "{}", copies.ty);
}

/// Packing moves the bytes a cursor names, in its order.
fn check_packing(copies: &Copies<'_>, cursor: Cursor<'_>) {
    let Copies { ty, count, total, low, high, .. } = *copies;
    let packer = match Packer::new(ty, count) {
        Ok(packer) => packer,
        // A packer takes the copies as one type, whose bounds count as well.
        Err(error) => return assert!(count > 1, "{error} for {count} copies of {ty}"),
    };
    assert_eq!(packer.size(), total);
    if total == 0 {
        return assert_eq!(packer.pack(&[], 0, &mut []), Ok(()));
    }
    assert!(packer.pack_window(&[], 0, 0, &mut []).is_err(), "{ty}");
    let limit = i128::from(MEMORY);
    if low < -limit || high > limit || total > MEMORY as u64 {
        return;
    }
    let origin = (-low).max(0) as usize;
    let memory: Vec<u8> = (0..origin + high.max(0) as usize).map(|i| (i % 251) as u8).collect();
    let bytes: Vec<usize> = cursor
        .flat_map(|run| run.offset..run.end())
        .map(|offset| (origin as i64 + offset) as usize)
        .collect();
    let expected: Vec<u8> = bytes.iter().map(|&i| memory[i]).collect();
    let new: Vec<u8> = (0..bytes.len()).map(|i| 255 - (i % 253) as u8).collect();
    let (third, all) = (bytes.len() / 3, bytes.len());
    for (start, end) in [(0, all), (third, all - third), (all - third, all)] {
        let mut stream = vec![0; end - start];
        packer
            .pack_window(&memory, origin, start as u64, &mut stream)
            .expect("memory holds the type");
        assert_eq!(stream, expected[start..end], "{start}..{end} of {ty}");
        let mut scattered = memory.clone();
        packer
            .unpack_window(start as u64, &new[start..end], &mut scattered, origin)
            .expect("memory holds the type");
        let mut model = memory.clone();
        for i in start..end {
            model[bytes[i]] = new[i];
        }
        assert_eq!(scattered, model, "{start}..{end} of {ty}");
    }
}
