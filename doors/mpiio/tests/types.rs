//! The MPI is the judge of what its datatypes mean: it packs and unpacks, and so do our descriptions.

#![cfg(feature = "mpi")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "the door uses what a test does not")]

#[path = "types/mpi.rs"]
mod mpi_types;
#[path = "types/random.rs"]
mod random;
#[path = "../src/types/mod.rs"]
mod types;

use std::ffi::c_int;
use std::sync::Arc;

use mpi::ffi::{self, MPI_Datatype};
use striate_datatype::{Datatype, Packer};

use mpi_types::{Made, ok};
use random::{Quirks, Random, Tried};
use types::{TypeProblem, describe};

fn cases() -> u64 {
    std::env::var("STRIATE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(5000)
}

/// Memory that copies of the type lie in, and where their origin is.
struct Buffer {
    bytes: Vec<u8>,
    origin: usize,
}

impl Buffer {
    fn of(random: &mut Random, datatype: &Datatype, count: u64) -> Self {
        let all = Datatype::contiguous(count, datatype).unwrap();
        let low = all.true_lower_bound().min(0);
        let high = all.true_upper_bound().max(0);
        Self { bytes: random.bytes((high - low) as usize), origin: -low as usize }
    }
}

fn mpi_pack(buffer: &Buffer, count: c_int, raw: MPI_Datatype, size: usize) -> Vec<u8> {
    let mut stream = vec![0; size + 1];
    let mut position = 0;
    // SAFETY: the buffer holds all copies around its origin, and the stream their bytes.
    ok(unsafe {
        ffi::MPI_Pack(
            buffer.bytes.as_ptr().wrapping_add(buffer.origin).cast(),
            count,
            raw,
            stream.as_mut_ptr().cast(),
            stream.len() as c_int,
            &raw mut position,
            ffi::RSMPI_COMM_SELF,
        )
    });
    stream.truncate(position as usize);
    stream
}

fn mpi_unpack(stream: &[u8], buffer: &mut Buffer, count: c_int, raw: MPI_Datatype) {
    let mut position = 0;
    // SAFETY: as for packing.
    ok(unsafe {
        ffi::MPI_Unpack(
            stream.as_ptr().cast(),
            stream.len() as c_int,
            &raw mut position,
            buffer.bytes.as_mut_ptr().wrapping_add(buffer.origin).cast(),
            count,
            raw,
            ffi::RSMPI_COMM_SELF,
        )
    });
}

/// Both pack and unpack copies of the type.
fn compare(random: &mut Random, raw: MPI_Datatype, quirks: Quirks, story: &str) {
    const COUNT: u64 = 3;
    let errs = if mpi_types::is_open_mpi() { quirks.minus_one } else { quirks.negative };
    let errs = errs || quirks.empty_field;
    let described = describe(raw).unwrap_or_else(|problem| panic!("{story}: {problem}"));
    let datatype = &described.datatype;
    assert_eq!(described.size as i64, mpi_types::size(raw), "{story}");
    let [low, extent, true_low, true_extent] = mpi_types::extents(raw);
    assert_eq!((datatype.lower_bound(), datatype.extent()), (low, extent), "{story}");
    if described.size == 0 || errs {
        return;
    }
    let places = (datatype.true_lower_bound(), datatype.true_extent() as i64);
    if mpi_types::is_open_mpi() || !quirks.distributed {
        assert_eq!(places, (true_low, true_extent), "{story}");
    }
    let mut ours = Buffer::of(random, datatype, COUNT);
    let packer = Packer::new(datatype, COUNT).unwrap();
    let mut stream = vec![0; packer.size() as usize];
    packer.pack(&ours.bytes, ours.origin, &mut stream).unwrap();
    let theirs = mpi_pack(&ours, COUNT as c_int, raw, stream.len());
    assert!(stream == theirs, "packing differs: {story}\n{datatype}");

    let stream = random.bytes(stream.len());
    let mut theirs = Buffer { bytes: ours.bytes.clone(), origin: ours.origin };
    packer.unpack(&stream, &mut ours.bytes, ours.origin).unwrap();
    mpi_unpack(&stream, &mut theirs, COUNT as c_int, raw);
    assert!(ours.bytes == theirs.bytes, "unpacking differs: {story}\n{datatype}");
}

#[test]
fn random_types_are_the_bytes_that_the_mpi_packs() {
    let named: Vec<_> = mpi_types::named()
        .iter()
        .filter(|named| named.kind != b'x' as i8)
        .map(|named| named.raw)
        .collect();
    let (mut compared, mut refused) = (0, 0);

    for case in 0..cases() {
        let mut random = Random(case);
        let Some(Tried { made, story, quirks }) = random::derived(&mut random, &named, 5) else {
            refused += 1;
            continue;
        };
        let [.., true_extent] = mpi_types::extents(made.0);
        if true_extent.abs() > 1 << 20 || mpi_types::size(made.0) > 1 << 20 {
            continue;
        }
        let made = made.commit();
        let story = format!("case {case}: {story}");
        compare(&mut random, made.0, quirks, &story);
        compared += 1;
    }
    println!("{compared} compared, {refused} refused by the MPI");
    assert!(compared > cases() / 2, "only {compared} compared, {refused} refused");
}

#[test]
fn predefined_types_are_found() {
    let mut random = Random(1);
    for (index, named) in mpi_types::named().iter().enumerate() {
        let described = describe(named.raw).unwrap();
        assert!(described.predefined, "named {index}");
        assert!(Arc::ptr_eq(&described, &describe(named.raw).unwrap()));
        compare(&mut random, named.raw, Quirks::default(), &format!("named {index}"));
        let external = described.external().unwrap();
        let int = if named.with_int == 1 { 4 } else { 0 };
        let size = u64::from(named.elements) * u64::from(named.external) + int;
        assert_eq!(external.size, size, "named {index}");
    }
}

#[test]
fn what_is_no_type_yet_is_a_problem() {
    mpi_types::start();
    // SAFETY: constants.
    let (null, int) = unsafe { (ffi::RSMPI_DATATYPE_NULL, ffi::RSMPI_INT32_T) };
    assert_eq!(describe(null).unwrap_err(), TypeProblem::Null);
    let made = mpi_types::contiguous(3, int);
    assert_eq!(describe(made.0).unwrap_err(), TypeProblem::NotCommitted);
    let made = made.commit();
    assert_eq!(describe(made.0).unwrap().size, 12);
}

#[test]
fn a_description_stays_with_its_type() {
    mpi_types::start();
    // SAFETY: a constant.
    let made = mpi_types::contiguous(3, unsafe { ffi::RSMPI_DOUBLE }).commit();
    let described = describe(made.0).unwrap();
    assert!(Arc::ptr_eq(&described, &describe(made.0).unwrap()));
    // SAFETY: a datatype.
    let twin = Made::by(|twin| unsafe { ffi::MPI_Type_dup(made.0, twin) });
    assert!(Arc::ptr_eq(&described, &describe(twin.0).unwrap()));
    let weak = Arc::downgrade(&described);
    drop((made, described));
    assert!(weak.upgrade().is_some(), "the duplicate has it still");
    drop(twin);
    assert!(weak.upgrade().is_none(), "nobody has it");
}

#[test]
fn threads_share_a_description() {
    mpi_types::start();
    for round in 1..50 {
        // SAFETY: a constant.
        let made = mpi_types::contiguous(round, unsafe { ffi::RSMPI_DOUBLE }).commit();
        let bits = std::sync::atomic::AtomicPtr::new(std::ptr::null_mut::<types::Described>());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let raw = SendHandle(made.0);
                let bits = &bits;
                scope.spawn(move || {
                    let raw = raw;
                    let described = describe(raw.0).unwrap();
                    assert_eq!(described.size, round as u64 * 8);
                    let mine = Arc::as_ptr(&described).cast_mut();
                    let other = bits.swap(mine, std::sync::atomic::Ordering::SeqCst);
                    assert!(other.is_null() || other == mine);
                });
            }
        });
    }
}

/// A handle may be used by any thread.
#[derive(Clone, Copy)]
struct SendHandle(MPI_Datatype);

// SAFETY: the MPI was started for threads.
unsafe impl Send for SendHandle {}

#[test]
fn types_beyond_64_bits_are_a_problem() {
    mpi_types::start();
    // SAFETY: a constant.
    let double = unsafe { ffi::RSMPI_DOUBLE };
    let once = mpi_types::contiguous(c_int::MAX, double);
    // SAFETY: datatypes.
    let twice = Made::try_by(|made| unsafe { ffi::MPI_Type_contiguous(c_int::MAX, once.0, made) });
    let Some(twice) = twice else { return };
    let thrice =
        Made::try_by(|made| unsafe { ffi::MPI_Type_contiguous(c_int::MAX, twice.0, made) });
    for made in [Some(twice), thrice].into_iter().flatten() {
        let problem = describe(made.commit().0).unwrap_err();
        println!("{problem}");
        assert!(matches!(problem, TypeProblem::Description(_) | TypeProblem::Size { .. }));
    }
}

#[test]
fn deep_nests_are_a_problem() {
    mpi_types::start();
    // SAFETY: a constant.
    let mut made = mpi_types::contiguous(1, unsafe { ffi::RSMPI_DOUBLE });
    for _ in 0..300 {
        made = mpi_types::contiguous(1, made.0);
    }
    made = made.commit();
    let problem = describe(made.0);
    assert!(matches!(problem, Err(TypeProblem::Nesting { .. })), "{problem:?}");
}
