//! external32: our streams beside those of `MPI_Pack_external`, wherever the MPI is right, and
//! fixed bytes where none of them is.
//!
//! Open MPI leaves wide characters as they are and garbles what has 16 bytes. MPICH aborts the
//! program when it meets wide characters, or types that its table lacks, and crashes with some
//! derived types: of these, the way out and back is checked with it, and the bytes with Open MPI.

use std::ffi::c_int;
use std::io::Write;
use std::process::{Command, Stdio};

use mpi::ffi::{self, MPI_Datatype};
use striate_datatype::Datatype;
use striate_file::{Gather, Scatter};

use crate::mpi_types::{self, CreatedType, PredefinedType, ok};
use crate::random::{self, Quirks, Random, Tried};
use crate::types::describe;
use crate::types::external::{Incoming, Outgoing};
use crate::{TypedBuffer, cases};

/// Whether the MPI converts the type as the standard says.
fn is_converted(named: PredefinedType) -> bool {
    const BY_MPICH: [&str; 16] = [
        "MPI_BYTE",
        "MPI_CHAR",
        "MPI_SIGNED_CHAR",
        "MPI_UNSIGNED_CHAR",
        "MPI_SHORT",
        "MPI_UNSIGNED_SHORT",
        "MPI_INT",
        "MPI_UNSIGNED",
        "MPI_LONG",
        "MPI_UNSIGNED_LONG",
        "MPI_FLOAT",
        "MPI_DOUBLE",
        "MPI_CHARACTER",
        "MPI_INTEGER",
        "MPI_REAL",
        "MPI_DOUBLE_PRECISION",
    ];
    if mpi_types::is_open_mpi() {
        named.kind as u8 != b'w' && named.external <= 8
    } else {
        BY_MPICH.contains(&mpi_types::name(named.raw).as_str())
    }
}

fn mpi_pack(buffer: &TypedBuffer, count: c_int, raw: MPI_Datatype, size: usize) -> Vec<u8> {
    let mut stream = vec![0; size + 64];
    let mut position = 0;
    // SAFETY: the buffer holds all copies around its origin, and the stream their bytes.
    ok(unsafe {
        ffi::MPI_Pack_external(
            c"external32".as_ptr(),
            buffer.bytes.as_ptr().wrapping_add(buffer.origin).cast(),
            count,
            raw,
            stream.as_mut_ptr().cast(),
            stream.len() as _,
            &raw mut position,
        )
    });
    stream.truncate(position as usize);
    stream
}

/// The stream of copies of the type, asked for in parts.
fn gathered(random: &mut Random, buffer: &TypedBuffer, count: u64, raw: MPI_Datatype) -> Vec<u8> {
    let described = describe(raw).unwrap();
    let outgoing = Outgoing::new(&buffer.bytes, buffer.origin, count, &described).unwrap();
    let mut stream = vec![0; outgoing.stream_len() as usize];
    outgoing.gather(0, &mut stream).unwrap();
    for (start, end) in parts(random, stream.len()) {
        let mut part = vec![0; end - start];
        outgoing.gather(start as u64, &mut part).unwrap();
        assert!(part == stream[start..end], "the part {start}..{end} of {}", stream.len());
    }
    stream
}

/// Parts that make up `len` bytes, in any order.
fn parts(random: &mut Random, len: usize) -> Vec<(usize, usize)> {
    let mut cuts: Vec<_> =
        (0..random.below(7)).map(|_| random.below(len as u64 + 1) as usize).collect();
    cuts.extend([0, len]);
    cuts.sort_unstable();
    let mut parts: Vec<_> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
    for i in (1..parts.len()).rev() {
        parts.swap(i, random.below(i as u64 + 1) as usize);
    }
    parts
}

/// What comes back from the stream must make the same stream again, and touch nothing else.
fn check_return(random: &mut Random, count: u64, raw: MPI_Datatype, stream: &[u8], story: &str) {
    let described = describe(raw).unwrap();
    let mut memory = TypedBuffer::of(random, &described.datatype, count);
    let before = memory.bytes.clone();
    let mut incoming = Incoming::new(&mut memory.bytes, memory.origin, count, &described).unwrap();
    for (start, end) in parts(random, stream.len()) {
        incoming.scatter(start as u64, &stream[start..end]).unwrap();
    }
    let again = gathered(random, &memory, count, raw);
    assert!(again == stream, "the way back: {story}");
    let touched = touched_by(&described.datatype, count, &memory);
    let kept = before.iter().zip(&memory.bytes).zip(touched).all(|((a, b), t)| t || a == b);
    assert!(kept, "gaps are left alone: {story}");
}

/// Which bytes of memory the copies of a type have.
fn touched_by(datatype: &Datatype, count: u64, memory: &TypedBuffer) -> Vec<bool> {
    let packer = striate_datatype::Packer::new(datatype, count).unwrap();
    let mut marks = vec![0; memory.bytes.len()];
    packer.unpack(&vec![1; packer.size() as usize], &mut marks, memory.origin).unwrap();
    marks.into_iter().map(|mark| mark == 1).collect()
}

#[test]
fn predefined_types_are_converted_as_the_mpi_does() {
    let mut random = Random::new(5);
    let mut compared = 0;
    for (index, named) in mpi_types::named().iter().enumerate() {
        let story = format!("named {index}, {} bytes", named.external);
        let described = describe(named.raw).unwrap();
        let buffer = TypedBuffer::of(&mut random, &described.datatype, 100);
        let ours = gathered(&mut random, &buffer, 100, named.raw);
        if is_converted(*named) {
            assert!(ours == mpi_pack(&buffer, 100, named.raw, ours.len()), "{story}");
            compared += 1;
        }
        check_return(&mut random, 100, named.raw, &ours, &story);
    }
    assert!(compared > 15, "{compared}");
}

#[test]
fn random_types_are_converted_as_the_mpi_does() {
    let named = mpi_types::named();
    let all: Vec<_> = named.iter().map(|named| named.raw).collect();
    let converted: Vec<_> =
        named.iter().filter(|named| is_converted(**named)).map(|named| named.raw).collect();
    let mut compared = 0;
    for case in 0..cases() {
        let mut random = Random::new(case ^ 0x5EED);
        let by_mpi = mpi_types::is_open_mpi() && case % 4 > 0;
        let base = if by_mpi { &converted } else { &all };
        let Some(Tried { made, story, quirks }) = random::derived(&mut random, base, 4) else {
            continue;
        };
        let [.., true_extent] = mpi_types::extents(made.0);
        let size = mpi_types::size(made.0);
        if true_extent > 1 << 18 || size > 1 << 18 || size == 0 {
            continue;
        }
        let made = made.commit();
        let story = format!("case {case}: {story}");
        let described = describe(made.0).unwrap();
        let buffer = TypedBuffer::of(&mut random, &described.datatype, 2);
        let ours = gathered(&mut random, &buffer, 2, made.0);
        if described.datatype.is_monotonic() {
            check_return(&mut random, 2, made.0, &ours, &story);
        }
        let Quirks { empty_field, minus_one, negative, .. } = quirks;
        if by_mpi && !empty_field && !minus_one && !negative {
            let theirs = mpi_pack(&buffer, 2, made.0, ours.len());
            assert!(ours == theirs, "{story}");
            compared += 1;
        }
    }
    assert!(compared > cases() / 5 || !mpi_types::is_open_mpi(), "{compared}");
}

/// The predefined type of a kind that has these sizes in memory and outside.
fn of_kind(kind: u8, native: i64, external: u8) -> MPI_Datatype {
    let is_it = |named: &&PredefinedType| {
        named.kind as u8 == kind
            && (named.external, named.elements, named.with_int) == (external, 1, 0)
            && mpi_types::size(named.raw) == native
    };
    mpi_types::named().iter().find(is_it).unwrap().raw
}

#[test]
fn a_long_has_four_bytes_outside() {
    mpi_types::start();
    let long = of_kind(b'i', 8, 4);
    let described = describe(long).unwrap();
    let memory: Vec<u8> = [1i64, -2, 0x1_0000_0003].iter().flat_map(|n| n.to_ne_bytes()).collect();
    let outgoing = Outgoing::new(&memory, 0, 3, &described).unwrap();
    let mut stream = [0; 12];
    outgoing.gather(0, &mut stream[..8]).unwrap();
    assert!(outgoing.all_in_range());
    outgoing.gather(8, &mut stream[8..]).unwrap();
    assert!(!outgoing.all_in_range(), "the third does not fit");
    assert_eq!(stream, [0, 0, 0, 1, 255, 255, 255, 254, 0, 0, 0, 3]);
    let mut back = vec![0; 24];
    Incoming::new(&mut back, 0, 3, &described).unwrap().scatter(0, &stream).unwrap();
    assert_eq!(back[..16], memory[..16]);

    // Distances that are counted in longs shrink with them, those in bytes do not.
    // SAFETY: a datatype.
    let counted =
        CreatedType::by(|made| unsafe { ffi::MPI_Type_vector(3, 1, 2, long, made) }).commit();
    let external = describe(counted.0).unwrap();
    let external = external.external().unwrap();
    assert_eq!((external.size, external.extent), (12, 20));
    // SAFETY: a datatype.
    let in_bytes =
        CreatedType::by(|made| unsafe { ffi::MPI_Type_create_hvector(3, 1, 16, long, made) })
            .commit();
    let external = describe(in_bytes.0).unwrap();
    let external = external.external().unwrap();
    assert_eq!((external.size, external.extent), (12, 36));
}

#[test]
fn a_wide_character_has_two_bytes_outside() {
    mpi_types::start();
    let described = describe(of_kind(b'w', 4, 2)).unwrap();
    let memory: Vec<u8> =
        ['a', 'é', '水', '🌊'].iter().flat_map(|&c| u32::from(c).to_ne_bytes()).collect();
    let outgoing = Outgoing::new(&memory, 0, 4, &described).unwrap();
    let mut stream = [0; 8];
    outgoing.gather(0, &mut stream).unwrap();
    assert!(!outgoing.all_in_range(), "the last does not fit");
    assert_eq!(stream, [0, b'a', 0, 0xE9, 0x6C, 0x34, 0xFF, 0xFD]);
    let mut back = vec![0; 16];
    Incoming::new(&mut back, 0, 4, &described).unwrap().scatter(0, &stream).unwrap();
    assert_eq!(back[..12], memory[..12]);
}

/// What the compiler makes of numbers of 16 bytes: long doubles of 128-bit numbers, or the other
/// way round.
fn by_compiler(input: &[u8], to_quad: bool) -> Vec<u8> {
    let folder = new_folder();
    let program = folder.join("convert");
    let source = "#include <stdio.h>\n#include <string.h>\n\
        int main(int argc, char **argv) { (void)argv; long double x; __float128 q;\n\
        while (fread(argc > 1 ? (void *)&x : (void *)&q, 16, 1, stdin) == 1) {\n\
        char out[16] = {0};\n\
        if (argc > 1) { q = x; memcpy(out, &q, 16); } else { x = q; memcpy(out, &x, 10); }\n\
        fwrite(out, 16, 1, stdout); } return 0; }\n";
    std::fs::write(folder.join("convert.c"), source).unwrap();
    let compiled = Command::new("cc")
        .arg("-O1")
        .arg("-o")
        .arg(&program)
        .arg(folder.join("convert.c"))
        .status()
        .unwrap();
    assert!(compiled.success());
    let mut child = Command::new(&program)
        .args(to_quad.then_some("quad"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).unwrap());
        child.wait_with_output().unwrap()
    });
    std::fs::remove_dir_all(folder).unwrap();
    output.stdout
}

fn new_folder() -> std::path::PathBuf {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("striate-types-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Numbers of all magnitudes, as the x87 stores them.
fn long_doubles(random: &mut Random) -> Vec<u8> {
    let mut numbers = Vec::new();
    for case in 0..4000u64 {
        let exponent = match case % 8 {
            0 => 0,
            1 => 0x7FFF,
            2 => 1,
            3 => 0x7FFE,
            _ => random.below(0x7FFF) as u16,
        };
        let mut significand = random.next();
        if exponent == 0 {
            significand >>= 1 + random.below(63);
        } else {
            significand |= 1 << 63;
        }
        if exponent == 0x7FFF {
            // Infinity, or a quiet number that is none: the compiler makes others quiet.
            significand = if case % 16 == 1 { 1 << 63 } else { significand | 3 << 62 };
        }
        let head = exponent | if random.below(2) == 0 { 0x8000 } else { 0 };
        numbers.extend(significand.to_le_bytes());
        numbers.extend(head.to_le_bytes());
        numbers.extend([0; 6]);
    }
    numbers
}

#[test]
#[cfg(target_arch = "x86_64")]
fn long_doubles_are_what_the_compiler_makes_of_them() {
    mpi_types::start();
    let mut random = Random::new(7);
    let described = describe(of_kind(b'x', 16, 16)).unwrap();
    let memory = long_doubles(&mut random);
    let count = memory.len() as u64 / 16;
    let outgoing = Outgoing::new(&memory, 0, count, &described).unwrap();
    let mut stream = vec![0; memory.len()];
    outgoing.gather(0, &mut stream).unwrap();
    let mut expected = by_compiler(&memory, true);
    expected.chunks_exact_mut(16).for_each(<[u8]>::reverse);
    assert!(stream == expected);
    let mut back = vec![1; memory.len()];
    Incoming::new(&mut back, 0, count, &described).unwrap().scatter(0, &stream).unwrap();
    assert!(back == memory, "the way back is exact");

    // Numbers that a long double does not hold are rounded.
    for quad in stream.chunks_exact_mut(16) {
        let is_number = (quad[0] & 0x7F, quad[1]) != (0x7F, 0xFF);
        if is_number {
            quad[9..].iter_mut().for_each(|byte| *byte = random.next() as u8);
            match random.below(4) {
                // A tie: 48 bits below a one.
                0 => {
                    quad[9] = quad[9] & 0xFE | 1;
                    quad[10..].fill(0);
                }
                // All ones: rounded up to the next power of two.
                1 => quad[2..].fill(0xFF),
                _ => {}
            }
        }
    }
    Incoming::new(&mut back, 0, count, &described).unwrap().scatter(0, &stream).unwrap();
    stream.chunks_exact_mut(16).for_each(<[u8]>::reverse);
    assert!(back == by_compiler(&stream, false));
}
