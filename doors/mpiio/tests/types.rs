//! The MPI is the judge of what its datatypes mean: it packs and unpacks, and so do our
//! descriptions.

#![cfg(feature = "mpi")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "the door uses what a test does not")]

#[path = "types/external.rs"]
mod external;
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

use mpi_types::{CreatedType, ok};
use random::{Quirks, Random, Tried};
use types::{TypeProblem, describe};

fn cases() -> u64 {
    std::env::var("STRIATE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(5000)
}

/// Memory that copies of the type lie in, and where their origin is.
struct TypedBuffer {
    bytes: Vec<u8>,
    origin: usize,
}

impl TypedBuffer {
    fn of(random: &mut Random, datatype: &Datatype, count: u64) -> Self {
        let all = Datatype::contiguous(count, datatype).unwrap();
        let low = all.true_lower_bound().min(0);
        let high = all.true_upper_bound().max(0);
        Self { bytes: random.bytes((high - low) as usize), origin: -low as usize }
    }
}

fn mpi_pack(buffer: &TypedBuffer, count: c_int, raw: MPI_Datatype, size: usize) -> Vec<u8> {
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

fn mpi_unpack(stream: &[u8], buffer: &mut TypedBuffer, count: c_int, raw: MPI_Datatype) {
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

/// Both pack and unpack copies of the type. Says whether they did: of what the MPI errs in, only
/// size and bounds are compared.
fn compare(random: &mut Random, raw: MPI_Datatype, quirks: Quirks, story: &str) -> bool {
    const COUNT: u64 = 3;
    let errs = if mpi_types::is_open_mpi() { quirks.minus_one } else { quirks.negative };
    let errs = errs || quirks.empty_field;
    let described = describe(raw).unwrap_or_else(|problem| panic!("{story}: {problem}"));
    let datatype = &described.datatype;
    assert_eq!(described.size as i64, mpi_types::size(raw), "{story}");
    let [low, extent, true_low, true_extent] = mpi_types::extents(raw);
    assert_eq!((datatype.lower_bound(), datatype.extent()), (low, extent), "{story}");
    if described.size == 0 || errs {
        return false;
    }
    let places = (datatype.true_lower_bound(), datatype.true_extent() as i64);
    if mpi_types::is_open_mpi() || !quirks.distributed {
        assert_eq!(places, (true_low, true_extent), "{story}");
    }
    let mut ours = TypedBuffer::of(random, datatype, COUNT);
    let packer = Packer::new(datatype, COUNT).unwrap();
    let mut stream = vec![0; packer.size() as usize];
    packer.pack(&ours.bytes, ours.origin, &mut stream).unwrap();
    let theirs = mpi_pack(&ours, COUNT as c_int, raw, stream.len());
    assert!(stream == theirs, "packing differs: {story}\n{datatype}");

    let stream = random.bytes(stream.len());
    let mut theirs = TypedBuffer { bytes: ours.bytes.clone(), origin: ours.origin };
    packer.unpack(&stream, &mut ours.bytes, ours.origin).unwrap();
    mpi_unpack(&stream, &mut theirs, COUNT as c_int, raw);
    assert!(ours.bytes == theirs.bytes, "unpacking differs: {story}\n{datatype}");
    true
}

#[test]
fn random_types_are_the_bytes_that_the_mpi_packs() {
    let named: Vec<_> = mpi_types::named()
        .iter()
        .filter(|named| named.kind as u8 != b'x')
        .map(|named| named.raw)
        .collect();
    let (mut compared, mut refused) = (0, 0);

    for case in 0..cases() {
        let mut random = Random::new(case);
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
        compared += u64::from(compare(&mut random, made.0, quirks, &story));
    }
    println!("{compared} compared, {refused} refused by the MPI");
    assert!(compared > cases() / 3, "only {compared} compared, {refused} refused");
}

#[test]
fn predefined_types_are_found() {
    let mut random = Random::new(1);
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
    let twin = CreatedType::by(|twin| unsafe { ffi::MPI_Type_dup(made.0, twin) });
    assert!(Arc::ptr_eq(&described, &describe(twin.0).unwrap()));
    let weak = Arc::downgrade(&described);
    drop((made, described));
    assert!(weak.upgrade().is_some(), "the duplicate has it still");
    drop(twin);
    assert!(weak.upgrade().is_none(), "no reference is left");
}

#[test]
fn no_reference_to_an_inner_type_is_left_behind() {
    mpi_types::start();
    // SAFETY: a constant.
    let inner = mpi_types::contiguous(3, unsafe { ffi::RSMPI_DOUBLE }).commit();
    let weak = Arc::downgrade(&describe(inner.0).unwrap());
    // SAFETY: a datatype.
    let middle = CreatedType::by(|made| unsafe { ffi::MPI_Type_vector(2, 1, 2, inner.0, made) });
    let outer = mpi_types::contiguous(2, middle.0).commit();
    assert_eq!(describe(outer.0).unwrap().size, 96);
    drop((inner, middle));
    assert!(weak.upgrade().is_some(), "the outer type is made of it");
    drop(outer);
    assert!(weak.upgrade().is_none(), "the MPI has freed it");
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
    let twice =
        CreatedType::try_by(|made| unsafe { ffi::MPI_Type_contiguous(c_int::MAX, once.0, made) });
    let Some(twice) = twice else { return };
    // SAFETY: a datatype.
    let thrice =
        CreatedType::try_by(|made| unsafe { ffi::MPI_Type_contiguous(c_int::MAX, twice.0, made) });
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

#[test]
fn large_counts_are_understood() {
    type Contiguous = unsafe extern "C" fn(i64, MPI_Datatype, *mut MPI_Datatype) -> c_int;
    type Vector = unsafe extern "C" fn(i64, i64, i64, MPI_Datatype, *mut MPI_Datatype) -> c_int;
    type Blocks =
        unsafe extern "C" fn(i64, *const i64, *const i64, MPI_Datatype, *mut MPI_Datatype) -> c_int;
    type EqualBlocks =
        unsafe extern "C" fn(i64, i64, *const i64, MPI_Datatype, *mut MPI_Datatype) -> c_int;
    type Struct = unsafe extern "C" fn(
        i64,
        *const i64,
        *const i64,
        *const MPI_Datatype,
        *mut MPI_Datatype,
    ) -> c_int;
    type Resized = unsafe extern "C" fn(MPI_Datatype, i64, i64, *mut MPI_Datatype) -> c_int;
    type Subarray = unsafe extern "C" fn(
        c_int,
        *const i64,
        *const i64,
        *const i64,
        c_int,
        MPI_Datatype,
        *mut MPI_Datatype,
    ) -> c_int;
    type Darray = unsafe extern "C" fn(
        c_int,
        c_int,
        c_int,
        *const i64,
        *const c_int,
        *const c_int,
        *const c_int,
        c_int,
        MPI_Datatype,
        *mut MPI_Datatype,
    ) -> c_int;
    macro_rules! made {
        ($name:literal as $kind:ty, $($argument:expr),+) => {
            CreatedType::by(|made| {
                let function = mpi_types::function($name).unwrap();
                // SAFETY: the function of that name has this type, and its lists their lengths.
                unsafe { std::mem::transmute::<*mut std::ffi::c_void, $kind>(function)($($argument,)+ made) }
            })
            .commit()
        };
    }
    mpi_types::start();
    if mpi_types::function(c"MPI_Type_contiguous_c").is_none() {
        assert!(mpi_types::is_open_mpi(), "MPICH has large counts");
        return;
    }
    // SAFETY: constants.
    let (int, double) = unsafe { (ffi::RSMPI_INT32_T, ffi::RSMPI_DOUBLE) };
    let huge = made!(c"MPI_Type_contiguous_c" as Contiguous, 1 << 40, double);
    assert_eq!(describe(huge.0).unwrap().size, 8 << 40);
    let (lengths, places) = ([2i64, 0, 1], [30i64, 8, 3]);
    let types = [int, double, int];
    let [block, cyclic, none] = mpi_types::distributions();
    let (kinds, default) = ([cyclic, block, none], mpi_types::default_argument());
    let made = [
        made!(c"MPI_Type_contiguous_c" as Contiguous, 3, int),
        made!(c"MPI_Type_vector_c" as Vector, 3, 2, 5, int),
        made!(c"MPI_Type_create_hvector_c" as Vector, 3, 2, 50, int),
        made!(c"MPI_Type_indexed_c" as Blocks, 3, lengths.as_ptr(), places.as_ptr(), int),
        made!(c"MPI_Type_create_hindexed_c" as Blocks, 3, lengths.as_ptr(), places.as_ptr(), int),
        made!(c"MPI_Type_create_indexed_block_c" as EqualBlocks, 3, 2, places.as_ptr(), int),
        made!(c"MPI_Type_create_hindexed_block_c" as EqualBlocks, 3, 2, places.as_ptr(), int),
        made!(
            c"MPI_Type_create_struct_c" as Struct,
            3,
            lengths.as_ptr(),
            places.as_ptr(),
            types.as_ptr()
        ),
        made!(c"MPI_Type_create_resized_c" as Resized, int, -3, 17),
        made!(
            c"MPI_Type_create_subarray_c" as Subarray,
            2,
            [4i64, 5].as_ptr(),
            [2i64, 3].as_ptr(),
            [1i64, 2].as_ptr(),
            mpi_types::order(true),
            int
        ),
        made!(
            c"MPI_Type_create_darray_c" as Darray,
            6,
            4,
            3,
            [7i64, 5, 3].as_ptr(),
            kinds.as_ptr(),
            [2, default, default].as_ptr(),
            [2, 3, 1].as_ptr(),
            mpi_types::order(false),
            int
        ),
    ];
    for (index, made) in made.iter().enumerate() {
        let quirks = Quirks { distributed: index == 10, ..Quirks::default() };
        // An empty field, but for MPICH's true bounds, is no hindrance here.
        compare(&mut Random::new(9), made.0, quirks, &format!("large {index}"));
    }
}

#[test]
fn parameterised_types_of_fortran_are_understood() {
    mpi_types::start();
    for (precision, range, size) in [(6, 30, 4), (15, 300, 8)] {
        // SAFETY: no types are involved.
        let (real, complex) = unsafe {
            let mut types = [ffi::RSMPI_DATATYPE_NULL; 2];
            ok(ffi::MPI_Type_create_f90_real(precision, range, &raw mut types[0]));
            ok(ffi::MPI_Type_create_f90_complex(precision, range, &raw mut types[1]));
            (types[0], types[1])
        };
        for (raw, elements) in [(real, 1), (complex, 2)] {
            let described = describe(raw).unwrap();
            assert_eq!(described.size, elements * size);
            assert_eq!(described.external().unwrap().size, elements * size);
            assert!(Arc::ptr_eq(&described, &describe(raw).unwrap()));
            let made = mpi_types::contiguous(5, raw).commit();
            compare(&mut Random::new(3), made.0, Quirks::default(), "of Fortran");
        }
    }
    for (digits, size) in [(2, 1), (4, 2), (9, 4), (18, 8)] {
        // SAFETY: no type is involved.
        let raw = unsafe {
            let mut raw = ffi::RSMPI_DATATYPE_NULL;
            ok(ffi::MPI_Type_create_f90_integer(digits, &raw mut raw));
            raw
        };
        assert_eq!(describe(raw).unwrap().external().unwrap().size, size);
    }
}

#[test]
fn structs_of_very_many_parts_are_understood() {
    const FIELDS: usize = 40_000;
    mpi_types::start();
    // SAFETY: a constant.
    let int = unsafe { ffi::RSMPI_INT32_T };
    // SAFETY: a datatype.
    let vector =
        |stride| CreatedType::by(|made| unsafe { ffi::MPI_Type_vector(2, 1, stride, int, made) });
    let vectors: Vec<_> = (2..13).map(vector).collect();
    let mut random = Random::new(17);
    let lengths = vec![1; FIELDS];
    let types: Vec<_> = (0..FIELDS).map(|_| vectors[random.below(11) as usize].0).collect();
    let displacements: Vec<ffi::MPI_Aint> =
        (0..FIELDS as i64).map(|i| (64 * i + random.between(0, 9)) as ffi::MPI_Aint).collect();
    // SAFETY: lists of as many entries.
    let made = CreatedType::by(|made| unsafe {
        let (lengths, types) = (lengths.as_ptr(), types.as_ptr());
        ffi::MPI_Type_create_struct(FIELDS as c_int, lengths, displacements.as_ptr(), types, made)
    });
    assert!(compare(&mut random, made.commit().0, Quirks::default(), "many parts"));
}
