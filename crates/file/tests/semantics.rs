//! What calls mean: modes, sizes, pointers, ends of files, hints, views.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use striate_comm::{Comm, Threads};
use striate_datatype::Datatype;
use striate_file::{
    ErrorKind, File, FileError, Hints, Memory, MemoryMut, MethodChoice, Mode, View,
};
use striate_store::MemoryStore;
use support::Watchdog;

const BOTH: Mode = Mode::READ.union(Mode::WRITE);
const METHODS: [&str; 6] = ["auto", "posix", "sieve", "two-phase", "list", "datatype"];

/// Runs `body` as `ranks` ranks within a time limit.
fn run<T: Send>(
    ranks: usize,
    body: impl Fn(&Arc<dyn Comm>) -> Result<T, FileError> + Sync,
) -> Vec<T> {
    let _watchdog = Watchdog::new(Duration::from_secs(120), "a test of semantics");
    Threads::new(ranks).try_run(|comm| body(&comm)).unwrap()
}

fn open(comm: &Arc<dyn Comm>, path: &Path, mode: Mode) -> Result<File, FileError> {
    File::open(comm, path, mode, &Hints::default())
}

fn bytes(n: u64) -> Datatype {
    Datatype::bytes(n).unwrap()
}

fn every_third_byte(from: u64) -> View {
    let byte = bytes(1);
    View::new(from, &byte, &Datatype::resized(&byte, 0, 3).unwrap()).unwrap()
}

#[test]
fn create_makes_a_file_and_keeps_one_that_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(3, |comm| {
        let missing = open(comm, &path, BOTH).unwrap_err().to_string();
        assert!(missing.contains("file"), "{missing}");
        open(comm, &path, BOTH | Mode::CREATE)?.close()?;
        let mut file = open(comm, &path, Mode::WRITE | Mode::CREATE)?;
        assert_eq!(file.mode(), Mode::WRITE | Mode::CREATE);
        file.write_at_all(comm.rank() as u64, &[comm.rank() as u8 + 1])?;
        file.close()?;
        let file = open(comm, &path, BOTH | Mode::CREATE)?;
        assert_eq!(file.size()?, 3);
        file.close()
    });
    assert_eq!(std::fs::read(&path).unwrap(), [1, 2, 3]);
}

#[test]
fn exclusive_fails_on_every_rank_if_the_file_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(4, |comm| {
        let mode = BOTH | Mode::CREATE | Mode::EXCLUSIVE;
        open(comm, &path, mode)?.close()?;
        let error = open(comm, &path, mode).unwrap_err().to_string();
        assert!(comm.rank() == 0 || error.contains("rank 0"), "{error}");
        Ok(())
    });
}

#[test]
fn delete_on_close_deletes_when_all_have_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(3, |comm| {
        let mut file = open(comm, &path, BOTH | Mode::CREATE | Mode::DELETE_ON_CLOSE)?;
        file.write_at_all(comm.rank() as u64, &[1])?;
        assert!(path.exists());
        comm.barrier()?;
        file.close()?;
        assert!(!path.exists());
        Ok(())
    });
    assert!(File::delete(&path).unwrap_err().to_string().contains("file"));
}

#[test]
fn modes_that_exclude_each_other_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(2, |comm| {
        for mode in [
            Mode::empty(),
            Mode::CREATE,
            Mode::READ | Mode::CREATE,
            Mode::READ | Mode::EXCLUSIVE,
            BOTH | Mode::EXCLUSIVE,
        ] {
            let error = open(comm, &path, mode).unwrap_err();
            let mode_named = matches!(error, FileError::Mode { .. });
            assert!(mode_named, "{mode:?}: {error}");
        }
        // A mode of one rank is an error of all.
        let mode = if comm.rank() == 1 { Mode::empty() } else { BOTH | Mode::CREATE };
        let error = open(comm, &path, mode).unwrap_err().to_string();
        assert!(comm.rank() == 1 || error.contains("rank 1"), "{error}");
        Ok(())
    });
    assert!(!path.exists());
}

#[test]
fn what_the_mode_forbids_fails_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"abcdef").unwrap();
    run(2, |comm| {
        let mut file = open(comm, &path, Mode::READ)?;
        let refused = |done: Result<u64, FileError>| {
            let error = done.unwrap_err();
            assert!(
                matches!(error, FileError::NotOpenedFor { .. } | FileError::Rank { .. }),
                "{error}"
            );
        };
        refused(file.write_at(0, b"x"));
        refused(file.write(b"x"));
        refused(file.write_at_all(0, b"x"));
        refused(file.write_all(b"x"));
        assert!(file.iwrite_at(0, vec![1]).is_err());
        let request = file.iwrite_at_all(0, vec![1]);
        refused(file.wait(request).1);
        assert!(file.set_size(1).is_err());
        assert!(file.preallocate(100).is_err());
        file.sync()?;
        assert_eq!(file.position(), 0);
        let mut back = [0; 6];
        assert_eq!(file.read_at_all(0, &mut back)?, 6);
        assert_eq!(&back, b"abcdef");
        file.close()?;

        let mut file = open(comm, &path, Mode::WRITE)?;
        refused(file.read_at(0, &mut back));
        refused(file.read_at_all(0, &mut back));
        assert!(file.iread_at(0, vec![1]).is_err());
        file.close()
    });
    assert_eq!(std::fs::read(&path).unwrap(), b"abcdef");
}

#[test]
fn append_starts_pointers_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"abc").unwrap();
    run(2, |comm| {
        let mut file = open(comm, &path, BOTH | Mode::APPEND)?;
        assert_eq!(file.position(), 3);
        comm.barrier()?;
        file.seek(file.position() + comm.rank() as u64);
        file.write_all(&[b'd' + comm.rank() as u8])?;
        file.close()
    });
    assert_eq!(std::fs::read(&path).unwrap(), b"abcde");
}

#[test]
fn holes_of_a_view_and_zeros_beyond_the_end() {
    let directory = tempfile::tempdir().unwrap();
    for method in METHODS {
        for together in [true, false] {
            let path = directory.path().join(format!("{method}-{together}"));
            std::fs::write(&path, [0xAA; 10]).unwrap();
            let hints: Hints = format!("striate_method={method}").parse().unwrap();
            run(2, |comm| {
                let mut file = File::open(comm, &path, BOTH, &hints)?;
                file.set_view(every_third_byte(comm.rank() as u64))?;
                let data = [comm.rank() as u8 + 1; 6];
                let written =
                    if together { file.write_at_all(0, &data)? } else { file.write_at(0, &data)? };
                assert_eq!(written, 6);
                file.close()
            });
            let expected: Vec<u8> = (0..17)
                .map(|i| match i % 3 {
                    0 => 1,
                    1 => 2,
                    _ if i < 10 => 0xAA,
                    _ => 0,
                })
                .collect();
            assert_eq!(std::fs::read(&path).unwrap(), expected, "{method}, together: {together}");
        }
    }
}

#[test]
fn reads_at_the_end_tell_how_much_there_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, (0..10).collect::<Vec<u8>>()).unwrap();
    for method in METHODS {
        let hints: Hints = format!("striate_method={method}").parse().unwrap();
        run(2, |comm| {
            let mut file = File::open(comm, &path, Mode::READ, &hints)?;
            file.set_view(every_third_byte(comm.rank() as u64))?;
            let there = [4, 3][comm.rank()];
            for together in [true, false] {
                let mut data = [99; 6];
                file.seek(0);
                let read = if together { file.read_all(&mut data)? } else { file.read(&mut data)? };
                assert_eq!(read, there, "{method}");
                assert_eq!(file.position(), there, "{method}");
                let expected: Vec<u8> = (0..6)
                    .map(|i| if i < there { 3 * i as u8 + comm.rank() as u8 } else { 99 })
                    .collect();
                assert_eq!(data.as_slice(), expected, "{method}");
                let at_end =
                    if together { file.read_all(&mut data)? } else { file.read(&mut data)? };
                assert_eq!(at_end, 0, "{method}");
            }
            file.close()
        });
    }
}

#[test]
fn sizes_are_set_reserved_and_synced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(3, |comm| {
        let mut file = open(comm, &path, BOTH | Mode::CREATE)?;
        file.set_size(100)?;
        assert_eq!(file.size()?, 100);
        comm.barrier()?;
        file.preallocate(50)?;
        assert_eq!(file.size()?, 100);
        comm.barrier()?;
        file.preallocate(200)?;
        assert_eq!(file.size()?, 200);
        comm.barrier()?;
        file.set_size(7)?;
        assert_eq!(file.size()?, 7);
        comm.barrier()?;
        // Not the same on all.
        assert!(file.set_size(comm.rank() as u64).is_err());
        assert!(file.preallocate(comm.rank() as u64).is_err());
        assert_eq!(file.size()?, 7);
        comm.barrier()?;
        file.write_at_all(comm.rank() as u64, &[5])?;
        file.sync()?;
        file.close()
    });
    assert_eq!(std::fs::read(&path).unwrap(), [5, 5, 5, 0, 0, 0, 0]);
}

#[test]
fn pointers_move_by_etypes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, [7; 30]).unwrap();
    run(1, |comm| {
        let mut file = open(comm, &path, BOTH)?;
        let unit = bytes(4);
        let every_other = Datatype::resized(&unit, 0, 8)?;
        file.set_view(View::new(2, &unit, &every_other)?)?;
        assert_eq!(file.position(), 0);
        file.write(&[1; 8])?;
        assert_eq!(file.position(), 2);
        file.read_at(0, &mut [0; 4])?;
        assert_eq!(file.position(), 2, "explicit offsets leave it alone");
        let request = file.iread(vec![0; 4])?;
        assert_eq!(file.position(), 3);
        assert_eq!(file.wait(request).0, [7; 4]);
        // Etypes at 2, 10, 18 and 26 (which is whole).
        file.seek_end(0)?;
        assert_eq!(file.position(), 4);
        file.seek_end(-1)?;
        assert_eq!(file.position(), 3);
        file.seek_end(3)?;
        assert_eq!(file.position(), 7);
        assert!(file.seek_end(-100).is_err());
        assert_eq!(file.position(), 7);
        assert!(file.write_at(0, &[1; 6]).is_err(), "half an etype");
        file.set_view(View::bytes())?;
        assert_eq!(file.position(), 0);
        file.seek_end(0)?;
        assert_eq!(file.position(), 30);
        file.close()
    });
    let mut expected = [7; 30];
    expected[2..6].fill(1);
    expected[10..14].fill(1);
    assert_eq!(std::fs::read(&path).unwrap(), expected);
}

#[test]
fn hints_in_effect_are_those_of_rank_0() {
    let object = MemoryStore::new("object");
    run(3, |comm| {
        let mine: Hints =
            format!("cb_nodes={};striate_method=list;unknown=5", comm.rank() + 2).parse()?;
        let file = File::on_store(comm, Arc::new(object.clone()), BOTH, &mine)?;
        assert_eq!(file.hints().get("cb_nodes").as_deref(), Some("2"));
        assert_eq!(file.hints().get("striate_method").as_deref(), Some("list"));
        assert_eq!(file.hints().get("unknown"), None);
        Ok(())
    });
    for (name, value) in [("cb_nodes", "0"), ("striate_domains", "round"), ("cb_buffer_size", "x")]
    {
        let error = Hints::default().set(name, value).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(value), "{error}");
    }
}

#[test]
fn atomicity_is_set_by_all_and_read_back() {
    let object = MemoryStore::new("object");
    run(2, |comm| {
        let mut file = File::on_store(comm, Arc::new(object.clone()), BOTH, &Hints::default())?;
        assert!(!file.atomicity());
        file.set_atomicity(true)?;
        assert!(file.atomicity());
        file.write_at_all(0, &[comm.rank() as u8; 50])?;
        let mut back = [9; 50];
        file.read_at_all(0, &mut back)?;
        assert!(back.iter().all(|&byte| byte == back[0]));
        file.set_atomicity(false)?;
        assert!(!file.atomicity());
        file.close()
    });
}

#[test]
fn invalid_views_are_refused() {
    let byte = bytes(1);
    let refused = |displacement: u64, etype: &Datatype, filetype: &Datatype| {
        let error = View::new(displacement, etype, filetype).unwrap_err();
        assert!(matches!(error, FileError::View { .. }), "{error}");
    };
    refused(0, &bytes(0), &byte);
    refused(0, &bytes(4), &bytes(6));
    refused(u64::MAX, &byte, &byte);
    let descending = Datatype::hindexed(&[(1, 10), (1, 0)], &byte).unwrap();
    refused(0, &byte, &descending);
    let overlapping = Datatype::hindexed(&[(4, 0), (4, 2)], &byte).unwrap();
    refused(0, &byte, &overlapping);
    let below = Datatype::hindexed(&[(1, -3), (1, 0)], &byte).unwrap();
    refused(100, &byte, &below);
    run(3, |comm| {
        let store = Arc::new(MemoryStore::new("object"));
        let mut file = File::on_store(comm, store, BOTH, &Hints::default())?;
        let etype = bytes(if comm.rank() == 2 { 2 } else { 4 });
        let filetype = bytes(8);
        let view = View::new(0, &etype, &filetype)?;
        assert!(file.set_view(view).is_err(), "etypes differ");
        assert_eq!(file.view(), &View::bytes());
        file.close()
    });
}

#[test]
fn views_show_one_copy_of_what_would_overlap_itself() {
    let (byte, word) = (bytes(1), bytes(4));
    // Two words, of which a second copy would begin between the first ones.
    let apart = Datatype::hindexed(&[(1, 0), (1, 12)], &word).unwrap();
    let narrow = View::new(100, &byte, &Datatype::resized(&apart, 0, 4).unwrap()).unwrap();
    assert_eq!(narrow.byte_offset(5).unwrap(), 113);
    assert_eq!(narrow.byte_offset(8).unwrap(), 104);
    let object = MemoryStore::new("object");
    run(2, |comm| {
        let mut file = File::on_store(comm, Arc::new(object.clone()), BOTH, &Hints::default())?;
        file.set_view(narrow.clone())?;
        let mine = comm.rank() as u8 + 1;
        file.write_at_all(4 * u64::from(mine - 1), &[mine; 4])?;
        let mut back = [9; 8];
        file.read_at_all(0, &mut back)?;
        assert_eq!(back, [1, 1, 1, 1, 2, 2, 2, 2]);
        assert!(matches!(file.read_at(4, &mut back), Err(FileError::View { .. })));
        assert!(file.write_at_all(8, &[0; 4]).is_err());
        file.close()
    });
}

#[test]
fn views_that_show_nothing_take_part() {
    let object = MemoryStore::new("object");
    run(3, |comm| {
        let mut file = File::on_store(comm, Arc::new(object.clone()), BOTH, &Hints::default())?;
        let sees = comm.rank() != 1;
        let word = bytes(4);
        let filetype = if sees { Datatype::resized(&word, 0, 8).unwrap() } else { bytes(0) };
        file.set_view(View::new(comm.rank() as u64 * 2, &word, &filetype)?)?;
        let values = [comm.rank() as u8 + 1; 8];
        file.write_all(if sees { &values[..] } else { &[] })?;
        file.sync()?;
        let mut back = vec![0; if sees { 8 } else { 0 }];
        file.read_at_all(0, &mut back)?;
        assert!(back.iter().all(|&byte| byte == values[0]));
        assert_eq!(file.read_at(0, &mut [0; 4]).is_err(), !sees);
        file.close()
    });
}

#[test]
fn memory_that_does_not_fit_its_description_is_refused() {
    let ints = Datatype::vector(3, 1, 2, &bytes(4)).unwrap();
    let mut memory = [0; 20];
    assert!(Memory::new(&memory, 0, 1, &ints).is_ok());
    assert!(Memory::new(&memory, 1, 1, &ints).is_err());
    assert!(Memory::new(&memory, 0, 2, &ints).is_err());
    assert!(Memory::new(&memory, 0, u64::MAX, &ints).is_err());
    assert!(MemoryMut::new(&mut memory, 1, 1, &ints).is_err());
    let before = Datatype::hindexed(&[(1, -1)], &bytes(1)).unwrap();
    assert!(Memory::new(&memory, 0, 1, &before).is_err());
    assert!(Memory::new(&memory, 1, 1, &before).is_ok());
}

#[test]
fn collectives_of_empty_groups_and_empty_buffers() {
    let object = MemoryStore::new("object");
    for method in METHODS {
        let hints: Hints = format!("striate_method={method}").parse().unwrap();
        run(3, |comm| {
            let mut file = File::on_store(comm, Arc::new(object.clone()), BOTH, &hints)?;
            assert_eq!(file.write_at_all(5, &[])?, 0);
            assert_eq!(file.read_at_all(5, &mut [])?, 0);
            assert_eq!(file.size()?, 0, "{method}");
            file.close()
        });
    }
}

#[test]
fn requests_may_be_waited_for_late_and_in_any_order() {
    let object = MemoryStore::new("object");
    run(3, |comm| {
        let rank = comm.rank();
        let mut file = File::on_store(comm, Arc::new(object.clone()), BOTH, &Hints::default())?;
        let requests: Vec<_> =
            (0..4).map(|i| file.iwrite_at_all(3 * i + rank as u64, vec![i as u8 + 1])).collect();
        let mut requests: Vec<_> = requests.into_iter().map(Some).collect();
        let mut order = [0, 1, 2, 3];
        order.rotate_left(rank);
        for i in order {
            let (buffer, done) = file.wait(requests[i].take().unwrap());
            assert_eq!((buffer.as_slice(), done?), ([i as u8 + 1].as_slice(), 1));
        }
        // Not waited for at all: closing carries it out.
        let _request = file.iwrite_at_all(12 + rank as u64, vec![5]);
        file.close()
    });
    let mut image = [0; 15];
    striate_store::Store::read_at(&object, 0, &mut image).unwrap();
    assert_eq!(image, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]);
}

#[test]
fn hints_can_be_changed_while_a_file_is_open() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(3, |comm| {
        let opened: Hints = "striate_method=posix;striping_unit=4096".parse().unwrap();
        let mut file = File::open(comm, &path, BOTH | Mode::CREATE, &opened)?;
        file.set_view(every_third_byte(comm.rank() as u64))?;
        let values = [comm.rank() as u8 + 1; 40];
        file.write_at_all(0, &values)?;
        let method = |file: &File| MethodChoice::Fixed(file.last_call().unwrap().method);
        assert_eq!(method(&file).to_string(), "posix");
        // Those of rank 0 count; windows of other sizes are other windows.
        for (name, size) in [("two-phase", 64), ("two-phase", 16), ("sieve", 32), ("list", 64)] {
            let given: Hints =
                format!("striate_method={name};cb_buffer_size={size};striping_unit=1").parse()?;
            let hints = (comm.rank() == 0).then_some(&given);
            if size == 16 {
                let view = file.view().clone();
                file.set_view_and_hints(view, hints)?;
            } else {
                file.set_hints(hints)?;
            }
            assert_eq!(file.hints().cb_buffer_size, Some(size));
            // The file is as it was made.
            assert_eq!(file.hints().striping_unit, Some(4096));
            let mut back = [0; 40];
            assert_eq!(file.read_at_all(0, &mut back)?, 40);
            assert_eq!(back, values);
            assert_eq!(method(&file).to_string(), name);
            file.write_at_all(0, &values)?;
        }
        // No rank brings hints.
        file.set_hints(None)?;
        assert_eq!(file.hints().cb_buffer_size, Some(64));
        // A nonblocking call uses the hints of its start, and is completed before.
        let request = file.iread_at_all(0, vec![0; 40]);
        file.set_hints(Some(&Hints::default()))?;
        let (back, done) = file.wait(request);
        assert_eq!((done?, back), (40, values.to_vec()));
        let mut back = [0; 40];
        file.read_at_all(0, &mut back)?;
        assert_eq!(back, values);
        file.close()
    });
}

#[test]
fn every_rank_learns_the_kind_of_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(3, |comm| {
        let kind = |done: Result<File, FileError>| done.unwrap_err().kind();
        assert_eq!(kind(open(comm, &path, BOTH)), ErrorKind::NoSuchFile);
        assert_eq!(kind(open(comm, directory.path(), BOTH)), ErrorKind::BadName);
        let mode = if comm.rank() == 2 { BOTH } else { Mode::WRITE };
        assert_eq!(kind(open(comm, &path, mode | Mode::CREATE)), ErrorKind::NotSame);
        assert!(!path.exists());
        open(comm, &path, BOTH | Mode::CREATE)?.close()?;
        let exclusive = BOTH | Mode::CREATE | Mode::EXCLUSIVE;
        assert_eq!(kind(open(comm, &path, exclusive)), ErrorKind::Exists);
        let mut file = open(comm, &path, Mode::READ)?;
        assert_eq!(file.write_at_all(0, b"x").unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(file.set_size(3).unwrap_err().kind(), ErrorKind::ReadOnly);
        file.close()?;
        let mut file = open(comm, &path, BOTH)?;
        let done = file.set_size(comm.rank() as u64).unwrap_err();
        assert_eq!(done.kind(), ErrorKind::NotSame, "{done}");
        file.close()
    });
}

/// A collective call.
type CollectiveCall<'a> = &'a dyn Fn(&mut File) -> Result<(), FileError>;

#[test]
fn a_rank_can_take_part_with_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(3, |comm| {
        let wrong = || FileError::Caller { reason: "a count below 0".into(), number: 7 };
        let check = |error: FileError| {
            assert_eq!(error.kind(), ErrorKind::Caller(7), "{error}");
            let named = error.to_string() == "rank 1 failed: a count below 0";
            assert!(named || comm.rank() == 1, "{error}");
        };
        let opened = || open(comm, &path, BOTH | Mode::CREATE);
        check(match comm.rank() {
            1 => File::decline_open(comm, wrong()),
            _ => opened().unwrap_err(),
        });
        let mut file = opened()?;
        let calls: [CollectiveCall<'_>; 7] = [
            &|file| file.write_at_all(0, b"x").map(drop),
            &|file| file.read_at_all(0, &mut [0]).map(drop),
            &|file| file.set_view(every_third_byte(5)),
            &|file| file.set_size(5),
            &|file| file.preallocate(5),
            &|file| file.set_atomicity(true),
            &File::sync,
        ];
        for call in calls {
            check(match comm.rank() {
                1 => file.decline(wrong()),
                _ => call(&mut file).unwrap_err(),
            });
        }
        assert!(!file.atomicity());
        assert_eq!(file.view(), &View::bytes());
        let request = match comm.rank() {
            1 => {
                let request = file.idecline(wrong());
                Err(request)
            }
            _ => Ok(file.iwrite_at_all(0, vec![1; 8])),
        };
        check(match request {
            Ok(request) => file.wait(request).1.unwrap_err(),
            Err(request) => file.wait(request).1.unwrap_err(),
        });
        // All ranks are at the same call.
        file.write_at_all(comm.rank() as u64, &[7])?;
        file.close()
    });
    assert_eq!(std::fs::read(&path).unwrap()[..3], [7, 7, 7]);
}

#[test]
fn parts_that_are_cheaper_alone_and_others_in_one_call() {
    const LEN: usize = 3000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    run(4, |comm| {
        let rank = comm.rank();
        // Rank 0 sees one run; the others take bytes in turn behind it, and rank 3 takes nothing
        // every other time.
        let view = if rank == 0 { View::bytes() } else { every_third_byte(7000 + rank as u64) };
        let mut file = open(comm, &path, BOTH | Mode::CREATE)?;
        file.set_view(view)?;
        for call in 0..12 {
            let idle = rank == 3 && call % 2 == 1;
            let mine: Vec<u8> = (0..LEN).map(|i| (i * 7 + rank * 31 + call) as u8).collect();
            let mine = if idle { &[] } else { &mine[..] };
            assert_eq!(file.write_at_all(0, mine)?, mine.len() as u64);
            let mut back = vec![0; mine.len()];
            assert_eq!(file.read_at_all(0, &mut back)?, mine.len() as u64);
            assert_eq!(back, mine, "call {call}");
        }
        // What one of them cannot do is an error of all, and the next call goes well.
        let refused = if rank == 2 {
            file.write_at_all(u64::MAX, b"xyz")
        } else {
            file.write_at_all(0, b"abc")
        };
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(file.write_at_all(0, b"end")?, 3);
        file.close()
    });
    let found = std::fs::read(&path).unwrap();
    assert_eq!(found.len(), 7003 + 3 * (LEN - 1) + 1);
    assert!(found[LEN..7001].iter().all(|byte| *byte == 0), "no rank wrote there");
    assert_eq!(&found[..3], b"end");
    assert_eq!(&found[7001..7010], b"eeennnddd");
}
