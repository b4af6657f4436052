//! Every rule with a recording that lets it speak, and one that does not.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod scenario;

use scenario::{CREATE, MS, READ, Scenario, UPDATE, US, good};

fn one(steps: impl FnOnce(&mut scenario::Program)) -> Scenario {
    let mut scenario = Scenario::new();
    let mut program = scenario.program(None);
    steps(&mut program);
    program.finish();
    scenario
}

#[test]
fn nothing_stands_out_when_all_is_well() {
    let mut scenario = Scenario::new();
    good(&mut scenario, 8);
    assert_eq!(scenario.rules(), [""; 0]);
}

#[test]
fn small_writes_are_told_with_what_would_be_saved() {
    let scenario = one(|program| {
        let file = program.open("/data/small.dat", CREATE, 100 * US);
        (0..4096u64).for_each(|n| program.write(&file, n * 1024, 1024, 50 * US));
        program.close(&file, 10 * US);
    });
    let finding = scenario.finding("small-writes");
    assert_eq!(finding.figure, "4,096 writes of 1 KiB on average");
    assert_eq!(finding.files, ["/data/small.dat"]);
    assert!(finding.help.contains("4 writes of at most 1 MiB"), "{}", finding.help);
    assert_eq!(finding.stack.as_ref().unwrap().name, "write-back");
    // 4,096 × 50 µs, less 4 × 50 µs, less 0.3 µs each, less 4 MiB at 1 GiB/s.
    let saved = finding.estimate.unwrap().saved_ns as f64;
    assert!((saved - (204.8e6 - 0.2e6 - 1.2288e6 - 3.906_25e6)).abs() < 1e3, "{saved}");
    assert_eq!(scenario.rules(), ["small-writes"]);

    let large = one(|program| {
        let file = program.open("/data/large.dat", CREATE, 100 * US);
        (0..4096u64).for_each(|n| program.write(&file, n << 20, 1 << 20, 50 * US));
        program.close(&file, 10 * US);
    });
    assert_eq!(large.rules(), [""; 0]);
    // Small ones that take no time beside the others.
    let beside = one(|program| {
        let file = program.open("/data/both.dat", CREATE, 100 * US);
        (0..1000u64).for_each(|n| program.write(&file, n * 1024, 1024, US));
        (1..100u64).for_each(|n| program.write(&file, n << 22, 4 << 20, 10 * MS));
        program.close(&file, 10 * US);
    });
    assert_eq!(beside.rules(), [""; 0]);
}

#[test]
fn advice_is_not_given_where_io_takes_no_time() {
    let scenario = one(|program| {
        let file = program.open("/data/small.dat", CREATE, 100 * US);
        for n in 0..4096u64 {
            program.write(&file, n * 1024, 1024, 2 * US);
            program.think(10 * MS);
        }
    });
    assert_eq!(scenario.rules(), [""; 0]);
}

#[test]
fn small_reads_are_told_if_they_can_be_foreseen() {
    for stride in [4096, 20_000] {
        let scenario = one(|program| {
            let file = program.open_of_size("/data/in.dat", READ, 1 << 30, 100 * US);
            (0..2000u64).for_each(|n| program.read(&file, n * stride, 4096, 80 * US));
        });
        assert_eq!(scenario.rules(), ["small-reads"], "{stride}");
        let finding = scenario.finding("small-reads");
        assert_eq!(finding.stack.unwrap().name, "read-ahead");
        assert!(finding.estimate.unwrap().share > 0.8);
    }
    let large = one(|program| {
        let file = program.open_of_size("/data/in.dat", READ, 1 << 30, 100 * US);
        (0..2000u64).for_each(|n| program.read(&file, n << 20, 1 << 20, 80 * US));
    });
    assert_eq!(large.rules(), [""; 0]);
}

fn scattered(n: u64) -> u64 {
    let mixed = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed >> 34 & !511
}

#[test]
fn random_access_is_told() {
    let scenario = one(|program| {
        let file = program.open_of_size("/data/table.db", READ, 1 << 30, 100 * US);
        (0..2000u64).for_each(|n| program.read(&file, scattered(n), 4096, 80 * US));
    });
    assert_eq!(scenario.rules(), ["random-access"]);
    let finding = scenario.finding("random-access");
    assert!(finding.help.contains("Sort the requests") && finding.stack.is_none());

    let writes = one(|program| {
        let file = program.open_of_size("/data/table.db", UPDATE, 1 << 30, 100 * US);
        (0..2000u64).for_each(|n| program.write(&file, scattered(n), 4096, 80 * US));
    });
    assert_eq!(writes.rules(), ["random-access"]);
    assert_eq!(writes.finding("random-access").stack.unwrap().name, "write-back");

    // Two streams that alternate are none.
    let two = one(|program| {
        let file = program.open_of_size("/data/two.dat", READ, 1 << 30, 100 * US);
        (0..2000u64)
            .for_each(|n| program.read(&file, (n % 2) << 29 | (n / 2) << 17, 1 << 17, 80 * US));
    });
    assert_eq!(two.rules(), [""; 0]);
}

#[test]
fn unaligned_writes_are_told() {
    let at = |header: u64| {
        one(move |program| {
            let file = program.open("/data/records.dat", CREATE, 100 * US);
            (0..300u64).for_each(|n| program.write(&file, header + (n << 20), 1 << 20, MS));
        })
    };
    let finding = at(512).finding("unaligned-writes");
    assert_eq!(finding.figure, "100 % of 300 large writes");
    assert_eq!(finding.stack.unwrap().name, "write-back and align");
    assert_eq!(at(4096).rules(), [""; 0]);
}

#[test]
fn what_is_read_back_is_told() {
    let back = |reads: bool| {
        one(move |program| {
            let path = "/scratch/tmp/part.tmp";
            let file = program.open(path, 0o1102, 100 * US);
            (0..64u64).for_each(|n| program.write(&file, n << 20, 1 << 20, MS));
            let from = if reads {
                file.clone()
            } else {
                program.open_of_size("/data/in", READ, 1 << 30, US)
            };
            (0..64u64).for_each(|n| program.read(&from, n << 20, 1 << 20, MS));
            program.close(&file, US);
            program.unlink(path, 10 * US);
        })
    };
    let finding = back(true).finding("read-after-write");
    assert!(finding.sentence.contains("All of these files are removed"), "{}", finding.sentence);
    let stack = finding.stack.unwrap();
    assert!(!stack.ready && stack.text.contains("from = \"/scratch/tmp\""), "{}", stack.text);
    assert_eq!(back(false).rules(), [""; 0]);
}

#[test]
fn a_sync_after_every_write_is_told() {
    let every = |nth: u64| {
        one(move |program| {
            let file = program.open("/data/log", CREATE, 100 * US);
            for n in 0..400u64 {
                program.write(&file, n << 17, 1 << 17, 100 * US);
                if n % nth == 0 {
                    program.sync(&file, 4 * MS);
                }
            }
            program.close(&file, US);
        })
    };
    let finding = every(1).finding("sync-every-write");
    assert_eq!(finding.figure, "100 % of 400 syncs follow a single write");
    assert!(finding.estimate.unwrap().share > 0.9);
    assert_eq!(every(100).rules(), [""; 0]);

    let durable = one(|program| {
        let file = program.open("/data/log", CREATE | 0o4_010_000, 100 * US);
        (0..400u64).for_each(|n| program.write(&file, n << 17, 1 << 17, 4 * MS));
    });
    assert_eq!(durable.rules(), ["sync-every-write"]);
}

fn files(count: u64, bytes: u64) -> Scenario {
    one(|program| {
        for n in 0..count {
            let file = program.open(format!("/data/many/{n}"), CREATE, 200 * US);
            let pieces = bytes.div_ceil(1 << 20).max(1);
            (0..pieces)
                .for_each(|piece| program.write(&file, piece << 20, bytes / pieces, 30 * US));
            program.close(&file, 20 * US);
        }
    })
}

#[test]
fn many_small_files_are_told() {
    let scenario = files(500, 3000);
    assert_eq!(scenario.rules(), ["small-files"]);
    let finding = scenario.finding("small-files");
    assert_eq!(finding.figure, "500 files of 2.93 KiB on average");
    assert_eq!(finding.stack.unwrap().name, "combine");
    assert_eq!(files(500, 64 << 20).rules(), [""; 0]);
    assert_eq!(files(50, 3000).rules(), [""; 0]);
}

#[test]
fn opens_and_stats_that_repeat_are_told() {
    let opens = |names: u64| {
        one(move |program| {
            for n in 0..600u64 {
                let file = program.open_of_size(
                    format!("/data/table.{}", n % names),
                    READ,
                    1 << 20,
                    300 * US,
                );
                program.read(&file, 0, 1 << 20, 100 * US);
                program.close(&file, 10 * US);
            }
        })
    };
    let finding = opens(3).finding("repeated-opens");
    assert_eq!(finding.figure, "100 % of 600 opens");
    assert!(!opens(600).rules().contains(&"repeated-opens".to_owned()));

    let stats = |names: u64| {
        one(move |program| {
            (0..600u64).for_each(|n| program.stat(format!("/data/{}", n % names), 300 * US));
        })
    };
    assert_eq!(stats(3).rules(), ["repeated-stats"]);
    assert_eq!(stats(600).rules(), [""; 0]);
    // A process that waits for another one asks again, and the file has changed.
    let mut waiting = Scenario::new();
    let (mut writer, mut reader) = (waiting.program(None), waiting.program(None));
    let file = writer.open("/data/grows", CREATE, US);
    for n in 0..600u64 {
        writer.write(&file, n << 17, 1 << 17, 300 * US);
        writer.think(300 * US);
        reader.think(300 * US);
        reader.stat("/data/grows", 300 * US);
    }
    writer.finish();
    reader.finish();
    assert_eq!(waiting.rules(), [""; 0]);
}

#[test]
fn names_that_are_not_there_are_told() {
    let search = |error: Option<i32>| {
        one(move |program| {
            program.errors = error;
            (0..400u64).for_each(|n| program.stat(format!("/data/path/{n}"), 100 * US));
        })
    };
    assert_eq!(search(Some(2)).rules(), ["missing-names"]);
    assert_eq!(search(None).rules(), [""; 0]);
}

#[test]
fn storms_of_metadata_are_told_if_nothing_more_precise_is() {
    let scenario = one(|program| {
        for n in 0..1000u64 {
            program.rename(format!("/data/a/{n}"), format!("/data/b/{n}"), 100 * US);
            program.unlink(format!("/data/b/{n}"), 100 * US);
        }
    });
    assert_eq!(scenario.rules(), ["metadata-storm"]);
    let finding = scenario.finding("metadata-storm");
    assert!(finding.figure.starts_with("100 % of 2,000 calls"), "{}", finding.figure);
    let few = one(|program| {
        (0..100u64)
            .for_each(|n| program.rename(format!("/data/a/{n}"), format!("/b/{n}"), 100 * US));
    });
    assert_eq!(few.rules(), [""; 0]);
}

fn shared(ranks: u32, offset: impl Fn(u64, u64) -> u64) -> Scenario {
    let mut scenario = Scenario::new();
    for rank in 0..ranks {
        let mut program = scenario.program(Some(rank));
        let file = program.open("/data/shared.nc", CREATE, US);
        for n in 0..100u64 {
            program.write(&file, offset(n, rank.into()), 128 << 10, 500 * US);
        }
        program.finish();
    }
    scenario
}

#[test]
fn one_file_of_many_processes_is_told() {
    let scenario = shared(8, |n, rank| (n * 8 + rank) << 17);
    assert_eq!(scenario.rules(), ["shared-file"]);
    let finding = scenario.finding("shared-file");
    assert!(
        finding.sentence.starts_with("8 processes write pieces of 128 KiB"),
        "{}",
        finding.sentence
    );
    // Each in a part of its own.
    assert_eq!(shared(8, |n, rank| rank << 30 | n << 17).rules(), [""; 0]);
    assert_eq!(shared(2, |n, rank| (n * 2 + rank) << 17).rules(), [""; 0]);
}

#[test]
fn uneven_ranks_are_told() {
    let ranks = |work: fn(u32) -> u64| {
        let mut scenario = Scenario::new();
        for rank in 0..8u32 {
            let mut program = scenario.program(Some(rank));
            let file = program.open(format!("/data/out.{rank}"), CREATE, US);
            (0..work(rank)).for_each(|n| program.write(&file, n << 20, 1 << 20, MS));
            program.finish();
        }
        scenario
    };
    let scenario = ranks(|rank| if rank == 0 { 400 } else { 20 });
    assert_eq!(scenario.rules(), ["uneven-ranks"]);
    let finding = scenario.finding("uneven-ranks");
    assert!(finding.sentence.starts_with("Rank 0 spends 400 ms"), "{}", finding.sentence);
    assert!(finding.help.contains("two-phase"));
    assert_eq!(ranks(|rank| 300 + u64::from(rank)).rules(), [""; 0]);
}

#[test]
fn one_slow_file_is_told() {
    let targets = |slow: u64| {
        one(move |program| {
            for n in 0..12u64 {
                let file = program.open(format!("/data/part.{n}"), CREATE, US);
                let takes = if n == 5 { slow } else { MS };
                (0..20u64).for_each(|piece| program.write(&file, piece << 20, 1 << 20, takes));
                program.close(&file, US);
            }
        })
    };
    let scenario = targets(9 * MS);
    assert_eq!(scenario.rules(), ["slow-file"]);
    assert_eq!(scenario.finding("slow-file").files, ["/data/part.5"]);
    assert_eq!(targets(2 * MS).rules(), [""; 0]);
}
