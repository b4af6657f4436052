//! Files that are not datasets, and paths that are not files.

use std::path::Path;

use striate_array::{ArrayError, Dataset, Format, OpenMode, Options, Slab, Type};

use crate::{FORMATS, assert_example, create, example, failures, message, open, place, ranks};

fn open_errors(path: &Path) -> Vec<String> {
    failures(3, |comm| {
        Dataset::open(&comm, path, OpenMode::ReadOnly, &Options::default()).map(drop)
    })
}

#[test]
fn files_of_other_kinds() {
    let (_directory, path) = place();
    let cases: [(&[u8], &str); 7] = [
        (b"", "the header has 32 bytes at least, more than there are"),
        (b"CD", "the header has 32 bytes at least, more than there are"),
        (b"some text", "it begins with [73, 6f, 6d, 65], not with \"CDF\""),
        (b"\x89HDF\r\n\x1a\n and more", "superblock at 0x0: version 32 is not known"),
        (b"CDF\x03 and more", "version 3 of the classic format is not known"),
        (b"CDF\x01\0\0\0\0\0\0\0\x0a\xff\xff\xff\xff", "more than there are"),
        (b"cdf\x05\0\0\0\0", "is unfinished: its writer ended before it had closed or synced it"),
    ];
    for (bytes, words) in cases {
        std::fs::write(&path, bytes).unwrap();
        for error in open_errors(&path) {
            assert!(error.contains(words) && error.contains("data.nc"), "{error}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn paths_that_are_not_files() {
    let (directory, path) = place();
    for path in [path.as_path(), directory.path(), &path.join("below")] {
        for error in open_errors(path) {
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
    }
    let messages = failures(3, |comm| {
        let path = path.join("below");
        Dataset::create(&comm, &path, Format::Cdf1, &Options::default()).map(drop)
    });
    assert!(messages.iter().all(|error| error.contains("below")), "{messages:?}");
}

#[test]
fn an_exclusive_creation_harms_nothing() {
    let (_directory, path) = place();
    let exclusive = Options { exclusive: true, ..Options::default() };
    ranks(1, |comm| example(&comm, &path, Format::Cdf1).close());
    let before = std::fs::read(&path).unwrap();
    let messages =
        failures(3, |comm| Dataset::create(&comm, &path, Format::Cdf5, &exclusive).map(drop));
    assert!(messages.iter().all(|error| error.contains("data.nc")), "{messages:?}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::remove_file(&path).unwrap();
    ranks(3, |comm| Dataset::create(&comm, &path, Format::Cdf5, &exclusive)?.end()?.close());
}

#[test]
fn truncated_headers() {
    let (_directory, path) = place();
    for format in FORMATS {
        ranks(1, |comm| example(&comm, &path, format).close());
        let whole = std::fs::read(&path).unwrap();
        let (_, header) = striate_array::format::Header::decode(&whole).unwrap();
        for len in (0..whole.len()).rev() {
            std::fs::write(&path, &whole[..len]).unwrap();
            ranks(1, |comm| {
                match Dataset::open(&comm, &path, OpenMode::ReadOnly, &Options::default()) {
                    Ok(mut data) => {
                        // Data beyond the end of the file reads as zeros.
                        assert!(len as u64 >= header);
                        for variable in data.variables().collect::<Vec<_>>() {
                            data.values(variable, &Slab::all())?;
                        }
                    }
                    Err(ArrayError::Header { .. }) => assert!((len as u64) < header),
                    Err(error) => panic!("{error}"),
                }
                Ok(())
            });
        }
        std::fs::write(&path, &whole).unwrap();
        ranks(2, |comm| {
            let mut data = open(&comm, &path, OpenMode::ReadOnly);
            assert_example(&mut data);
            data.close()
        });
    }
}

/// A header may claim more than the file contains; reading all of it is an error, or needs too much
/// memory, but the existing parts can be read.
#[test]
fn a_header_that_claims_too_much() {
    let (_directory, path) = place();
    for format in [Format::Cdf2, Format::Cdf5] {
        ranks(1, |comm| example(&comm, &path, format).close());
        let mut bytes = std::fs::read(&path).unwrap();
        let records = if format == Format::Cdf5 { 4..12 } else { 4..8 };
        bytes[records.clone()].fill(0);
        bytes[records.start] = if format == Format::Cdf5 { 0x01 } else { 0x7f };
        std::fs::write(&path, &bytes).unwrap();
        ranks(2, |comm| {
            let mut data = open(&comm, &path, OpenMode::ReadOnly);
            let [_, series, _] = crate::example_variables(&data);
            let first = Slab::new(&[1, 0], &[1, 6]);
            assert_eq!(data.values(series, &first)?, (106..112).collect::<Vec<i32>>().into());
            let last = Slab::new(&[data.header().records - 1, 0], &[1, 6]);
            assert_eq!(data.values(series, &last)?, vec![0; 6].into());
            let error = message(data.get_all(series, &Slab::all(), &mut [0_i32; 6]));
            assert!(error.contains("6 elements in memory for "), "{error}");
            data.close()
        });
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn unfinished_until_synced_or_closed() {
    let (_directory, path) = place();
    let is_unfinished = || std::fs::read(&path).unwrap().starts_with(b"cdf");
    ranks(2, |comm| {
        let mut define = create(&comm, &path, Format::Cdf1);
        let x = define.dimension("x", 2)?;
        let v = define.variable("v", Type::Int, &[x])?;
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        let mut data = define.end()?;
        data.put_all(v, &Slab::all(), &[1, 2])?;
        assert!(is_unfinished());
        let error = message(Dataset::open(&comm, &path, OpenMode::ReadOnly, &Options::default()));
        assert!(error.contains("is unfinished"), "{error}");
        let error = message(Dataset::open(&comm, &path, OpenMode::ReadWrite, &Options::default()));
        assert!(error.contains("is unfinished"), "{error}");
        data.sync()?;
        assert!(!is_unfinished());
        comm.barrier()?;
        // After a redefinition the file is finished again.
        let mut define = data.redefine()?;
        define.attribute(v, "long", "x".repeat(1000))?;
        let data = define.end()?;
        assert!(!is_unfinished());
        drop(data);
        comm.barrier()?;
        open(&comm, &path, OpenMode::ReadOnly).close()
    });
    crate::assert_valid(&path);
}

#[test]
fn a_reader_gets_new_records_by_sync() {
    let (_directory, path) = place();
    ranks(1, |comm| {
        let mut writer = example(&comm, &path, Format::Cdf1);
        writer.sync()?;
        let mut reader = open(&comm, &path, OpenMode::ReadOnly);
        let series = reader.variable("series")?;
        writer.put_all(series, &Slab::new(&[2, 0], &[1, 6]), &[9; 6])?;
        assert_eq!(reader.header().records, 2);
        assert!(message(reader.array::<i32>(series, &Slab::element(&[2, 0]))).contains("beyond"));
        reader.sync()?;
        assert_eq!(reader.header().records, 3);
        assert_eq!(reader.array::<i32>(series, &Slab::element(&[2, 5]))?[[0, 0]], 9);
        reader.close()?;
        writer.close()
    });
}
