//! Counters of files: how often, how much, how long. One record for each file and rank, or, of a
//! file that all ranks opened, one for all (rank -1).
//!
//! Records of older versions of a module lack counters: these are -1 here, as in Darshan's own
//! tools.

use crate::Log;
use crate::module::Module;
use crate::region::Reader;

/// What a module counted of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileRecord {
    /// The file's record id.
    pub id: u64,
    /// The rank; below 0 if the record stands for all ranks.
    pub rank: i64,
    /// Numbers, in the order of the module's enumeration of counters.
    pub counters: Vec<i64>,
    /// Times in seconds, in the order of the module's enumeration of times; some are moments since
    /// the job began.
    pub times: Vec<f64>,
}

/// An enumeration whose members have the names that Darshan prints.
macro_rules! counters {
    ($(#[$doc:meta])* $name:ident: $value:ident $field:ident; $($member:ident $text:literal,)*) => {
        $(#[$doc])*
        #[allow(missing_docs, reason = "Darshan's documentation has each of them")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($member,)* }

        impl $name {
            /// The names, in order.
            pub const NAMES: &[&str] = &[$($text,)*];

            /// Its value in a record; 0 if the record is of another module.
            pub fn of(self, record: &FileRecord) -> $value {
                record.$field.get(self as usize).copied().unwrap_or_default()
            }
        }
    };
}

counters! {
    /// The counters of POSIX records.
    Posix: i64 counters;
    Opens "POSIX_OPENS",
    Filenos "POSIX_FILENOS",
    Dups "POSIX_DUPS",
    Reads "POSIX_READS",
    Writes "POSIX_WRITES",
    Seeks "POSIX_SEEKS",
    Stats "POSIX_STATS",
    Mmaps "POSIX_MMAPS",
    Fsyncs "POSIX_FSYNCS",
    Fdsyncs "POSIX_FDSYNCS",
    RenameSources "POSIX_RENAME_SOURCES",
    RenameTargets "POSIX_RENAME_TARGETS",
    RenamedFrom "POSIX_RENAMED_FROM",
    Mode "POSIX_MODE",
    BytesRead "POSIX_BYTES_READ",
    BytesWritten "POSIX_BYTES_WRITTEN",
    MaxByteRead "POSIX_MAX_BYTE_READ",
    MaxByteWritten "POSIX_MAX_BYTE_WRITTEN",
    ConsecReads "POSIX_CONSEC_READS",
    ConsecWrites "POSIX_CONSEC_WRITES",
    SeqReads "POSIX_SEQ_READS",
    SeqWrites "POSIX_SEQ_WRITES",
    RwSwitches "POSIX_RW_SWITCHES",
    MemNotAligned "POSIX_MEM_NOT_ALIGNED",
    MemAlignment "POSIX_MEM_ALIGNMENT",
    FileNotAligned "POSIX_FILE_NOT_ALIGNED",
    FileAlignment "POSIX_FILE_ALIGNMENT",
    MaxReadTimeSize "POSIX_MAX_READ_TIME_SIZE",
    MaxWriteTimeSize "POSIX_MAX_WRITE_TIME_SIZE",
    SizeRead0100 "POSIX_SIZE_READ_0_100",
    SizeRead1001k "POSIX_SIZE_READ_100_1K",
    SizeRead1k10k "POSIX_SIZE_READ_1K_10K",
    SizeRead10k100k "POSIX_SIZE_READ_10K_100K",
    SizeRead100k1m "POSIX_SIZE_READ_100K_1M",
    SizeRead1m4m "POSIX_SIZE_READ_1M_4M",
    SizeRead4m10m "POSIX_SIZE_READ_4M_10M",
    SizeRead10m100m "POSIX_SIZE_READ_10M_100M",
    SizeRead100m1g "POSIX_SIZE_READ_100M_1G",
    SizeRead1gPlus "POSIX_SIZE_READ_1G_PLUS",
    SizeWrite0100 "POSIX_SIZE_WRITE_0_100",
    SizeWrite1001k "POSIX_SIZE_WRITE_100_1K",
    SizeWrite1k10k "POSIX_SIZE_WRITE_1K_10K",
    SizeWrite10k100k "POSIX_SIZE_WRITE_10K_100K",
    SizeWrite100k1m "POSIX_SIZE_WRITE_100K_1M",
    SizeWrite1m4m "POSIX_SIZE_WRITE_1M_4M",
    SizeWrite4m10m "POSIX_SIZE_WRITE_4M_10M",
    SizeWrite10m100m "POSIX_SIZE_WRITE_10M_100M",
    SizeWrite100m1g "POSIX_SIZE_WRITE_100M_1G",
    SizeWrite1gPlus "POSIX_SIZE_WRITE_1G_PLUS",
    Stride1Stride "POSIX_STRIDE1_STRIDE",
    Stride2Stride "POSIX_STRIDE2_STRIDE",
    Stride3Stride "POSIX_STRIDE3_STRIDE",
    Stride4Stride "POSIX_STRIDE4_STRIDE",
    Stride1Count "POSIX_STRIDE1_COUNT",
    Stride2Count "POSIX_STRIDE2_COUNT",
    Stride3Count "POSIX_STRIDE3_COUNT",
    Stride4Count "POSIX_STRIDE4_COUNT",
    Access1Access "POSIX_ACCESS1_ACCESS",
    Access2Access "POSIX_ACCESS2_ACCESS",
    Access3Access "POSIX_ACCESS3_ACCESS",
    Access4Access "POSIX_ACCESS4_ACCESS",
    Access1Count "POSIX_ACCESS1_COUNT",
    Access2Count "POSIX_ACCESS2_COUNT",
    Access3Count "POSIX_ACCESS3_COUNT",
    Access4Count "POSIX_ACCESS4_COUNT",
    FastestRank "POSIX_FASTEST_RANK",
    FastestRankBytes "POSIX_FASTEST_RANK_BYTES",
    SlowestRank "POSIX_SLOWEST_RANK",
    SlowestRankBytes "POSIX_SLOWEST_RANK_BYTES",
}

counters! {
    /// The times of POSIX records.
    PosixTime: f64 times;
    OpenStartTimestamp "POSIX_F_OPEN_START_TIMESTAMP",
    ReadStartTimestamp "POSIX_F_READ_START_TIMESTAMP",
    WriteStartTimestamp "POSIX_F_WRITE_START_TIMESTAMP",
    CloseStartTimestamp "POSIX_F_CLOSE_START_TIMESTAMP",
    OpenEndTimestamp "POSIX_F_OPEN_END_TIMESTAMP",
    ReadEndTimestamp "POSIX_F_READ_END_TIMESTAMP",
    WriteEndTimestamp "POSIX_F_WRITE_END_TIMESTAMP",
    CloseEndTimestamp "POSIX_F_CLOSE_END_TIMESTAMP",
    ReadTime "POSIX_F_READ_TIME",
    WriteTime "POSIX_F_WRITE_TIME",
    MetaTime "POSIX_F_META_TIME",
    MaxReadTime "POSIX_F_MAX_READ_TIME",
    MaxWriteTime "POSIX_F_MAX_WRITE_TIME",
    FastestRankTime "POSIX_F_FASTEST_RANK_TIME",
    SlowestRankTime "POSIX_F_SLOWEST_RANK_TIME",
    VarianceRankTime "POSIX_F_VARIANCE_RANK_TIME",
    VarianceRankBytes "POSIX_F_VARIANCE_RANK_BYTES",
}

counters! {
    /// The counters of MPI-IO records.
    MpiIo: i64 counters;
    IndepOpens "MPIIO_INDEP_OPENS",
    CollOpens "MPIIO_COLL_OPENS",
    IndepReads "MPIIO_INDEP_READS",
    IndepWrites "MPIIO_INDEP_WRITES",
    CollReads "MPIIO_COLL_READS",
    CollWrites "MPIIO_COLL_WRITES",
    SplitReads "MPIIO_SPLIT_READS",
    SplitWrites "MPIIO_SPLIT_WRITES",
    NbReads "MPIIO_NB_READS",
    NbWrites "MPIIO_NB_WRITES",
    Syncs "MPIIO_SYNCS",
    Hints "MPIIO_HINTS",
    Views "MPIIO_VIEWS",
    Mode "MPIIO_MODE",
    BytesRead "MPIIO_BYTES_READ",
    BytesWritten "MPIIO_BYTES_WRITTEN",
    RwSwitches "MPIIO_RW_SWITCHES",
    MaxReadTimeSize "MPIIO_MAX_READ_TIME_SIZE",
    MaxWriteTimeSize "MPIIO_MAX_WRITE_TIME_SIZE",
    SizeReadAgg0100 "MPIIO_SIZE_READ_AGG_0_100",
    SizeReadAgg1001k "MPIIO_SIZE_READ_AGG_100_1K",
    SizeReadAgg1k10k "MPIIO_SIZE_READ_AGG_1K_10K",
    SizeReadAgg10k100k "MPIIO_SIZE_READ_AGG_10K_100K",
    SizeReadAgg100k1m "MPIIO_SIZE_READ_AGG_100K_1M",
    SizeReadAgg1m4m "MPIIO_SIZE_READ_AGG_1M_4M",
    SizeReadAgg4m10m "MPIIO_SIZE_READ_AGG_4M_10M",
    SizeReadAgg10m100m "MPIIO_SIZE_READ_AGG_10M_100M",
    SizeReadAgg100m1g "MPIIO_SIZE_READ_AGG_100M_1G",
    SizeReadAgg1gPlus "MPIIO_SIZE_READ_AGG_1G_PLUS",
    SizeWriteAgg0100 "MPIIO_SIZE_WRITE_AGG_0_100",
    SizeWriteAgg1001k "MPIIO_SIZE_WRITE_AGG_100_1K",
    SizeWriteAgg1k10k "MPIIO_SIZE_WRITE_AGG_1K_10K",
    SizeWriteAgg10k100k "MPIIO_SIZE_WRITE_AGG_10K_100K",
    SizeWriteAgg100k1m "MPIIO_SIZE_WRITE_AGG_100K_1M",
    SizeWriteAgg1m4m "MPIIO_SIZE_WRITE_AGG_1M_4M",
    SizeWriteAgg4m10m "MPIIO_SIZE_WRITE_AGG_4M_10M",
    SizeWriteAgg10m100m "MPIIO_SIZE_WRITE_AGG_10M_100M",
    SizeWriteAgg100m1g "MPIIO_SIZE_WRITE_AGG_100M_1G",
    SizeWriteAgg1gPlus "MPIIO_SIZE_WRITE_AGG_1G_PLUS",
    Access1Access "MPIIO_ACCESS1_ACCESS",
    Access2Access "MPIIO_ACCESS2_ACCESS",
    Access3Access "MPIIO_ACCESS3_ACCESS",
    Access4Access "MPIIO_ACCESS4_ACCESS",
    Access1Count "MPIIO_ACCESS1_COUNT",
    Access2Count "MPIIO_ACCESS2_COUNT",
    Access3Count "MPIIO_ACCESS3_COUNT",
    Access4Count "MPIIO_ACCESS4_COUNT",
    FastestRank "MPIIO_FASTEST_RANK",
    FastestRankBytes "MPIIO_FASTEST_RANK_BYTES",
    SlowestRank "MPIIO_SLOWEST_RANK",
    SlowestRankBytes "MPIIO_SLOWEST_RANK_BYTES",
}

counters! {
    /// The times of MPI-IO records.
    MpiIoTime: f64 times;
    OpenStartTimestamp "MPIIO_F_OPEN_START_TIMESTAMP",
    ReadStartTimestamp "MPIIO_F_READ_START_TIMESTAMP",
    WriteStartTimestamp "MPIIO_F_WRITE_START_TIMESTAMP",
    CloseStartTimestamp "MPIIO_F_CLOSE_START_TIMESTAMP",
    OpenEndTimestamp "MPIIO_F_OPEN_END_TIMESTAMP",
    ReadEndTimestamp "MPIIO_F_READ_END_TIMESTAMP",
    WriteEndTimestamp "MPIIO_F_WRITE_END_TIMESTAMP",
    CloseEndTimestamp "MPIIO_F_CLOSE_END_TIMESTAMP",
    ReadTime "MPIIO_F_READ_TIME",
    WriteTime "MPIIO_F_WRITE_TIME",
    MetaTime "MPIIO_F_META_TIME",
    MaxReadTime "MPIIO_F_MAX_READ_TIME",
    MaxWriteTime "MPIIO_F_MAX_WRITE_TIME",
    FastestRankTime "MPIIO_F_FASTEST_RANK_TIME",
    SlowestRankTime "MPIIO_F_SLOWEST_RANK_TIME",
    VarianceRankTime "MPIIO_F_VARIANCE_RANK_TIME",
    VarianceRankBytes "MPIIO_F_VARIANCE_RANK_BYTES",
}

counters! {
    /// The counters of STDIO records.
    Stdio: i64 counters;
    Opens "STDIO_OPENS",
    Fdopens "STDIO_FDOPENS",
    Reads "STDIO_READS",
    Writes "STDIO_WRITES",
    Seeks "STDIO_SEEKS",
    Flushes "STDIO_FLUSHES",
    BytesWritten "STDIO_BYTES_WRITTEN",
    BytesRead "STDIO_BYTES_READ",
    MaxByteRead "STDIO_MAX_BYTE_READ",
    MaxByteWritten "STDIO_MAX_BYTE_WRITTEN",
    FastestRank "STDIO_FASTEST_RANK",
    FastestRankBytes "STDIO_FASTEST_RANK_BYTES",
    SlowestRank "STDIO_SLOWEST_RANK",
    SlowestRankBytes "STDIO_SLOWEST_RANK_BYTES",
}

counters! {
    /// The times of STDIO records.
    StdioTime: f64 times;
    MetaTime "STDIO_F_META_TIME",
    WriteTime "STDIO_F_WRITE_TIME",
    ReadTime "STDIO_F_READ_TIME",
    OpenStartTimestamp "STDIO_F_OPEN_START_TIMESTAMP",
    CloseStartTimestamp "STDIO_F_CLOSE_START_TIMESTAMP",
    WriteStartTimestamp "STDIO_F_WRITE_START_TIMESTAMP",
    ReadStartTimestamp "STDIO_F_READ_START_TIMESTAMP",
    OpenEndTimestamp "STDIO_F_OPEN_END_TIMESTAMP",
    CloseEndTimestamp "STDIO_F_CLOSE_END_TIMESTAMP",
    WriteEndTimestamp "STDIO_F_WRITE_END_TIMESTAMP",
    ReadEndTimestamp "STDIO_F_READ_END_TIMESTAMP",
    FastestRankTime "STDIO_F_FASTEST_RANK_TIME",
    SlowestRankTime "STDIO_F_SLOWEST_RANK_TIME",
    VarianceRankTime "STDIO_F_VARIANCE_RANK_TIME",
    VarianceRankBytes "STDIO_F_VARIANCE_RANK_BYTES",
}

/// Values that an older version lacks, put where the newest has them.
struct Added {
    at: usize,
    values: &'static [i64],
}

/// What the records of a version look like, and how they become the newest.
struct Shape {
    counters: usize,
    times: usize,
    /// Counters that went away, of which the first says whether the record can be converted.
    gone: std::ops::Range<usize>,
    added: &'static [Added],
    /// Where two moments are missing among the times.
    moments: Option<usize>,
}

const FILENOS_AND_RENAMES: &[Added] =
    &[Added { at: 1, values: &[-1, -1] }, Added { at: 10, values: &[-1, -1, 0] }];

/// The shape of records.
fn shape(module: Module, version: u32) -> Option<Shape> {
    let shape = |counters, times, added, moments| {
        Some(Shape { counters, times, gone: 0..0, added, moments })
    };
    match (module, version) {
        // Streams were counted here once: records of files that are streams are left out.
        (Module::POSIX, 1) => Some(Shape {
            counters: 68,
            times: 15,
            gone: 6..10,
            added: FILENOS_AND_RENAMES,
            moments: Some(3),
        }),
        (Module::POSIX, 2) => shape(64, 15, FILENOS_AND_RENAMES, Some(3)),
        (Module::POSIX, 3) => shape(64, 17, FILENOS_AND_RENAMES, None),
        (Module::POSIX, 4) => shape(69, 17, &[], None),
        (Module::MPI_IO, 1 | 2) => shape(51, 15, &[], Some(3)),
        (Module::MPI_IO, 3) => shape(51, 17, &[], None),
        (Module::STDIO, 1) => shape(13, 15, &[Added { at: 1, values: &[-1] }], None),
        (Module::STDIO, 2) => shape(14, 15, &[], None),
        _ => None,
    }
}

pub(crate) fn read(
    log: &Log<'_>,
    module: Module,
    reader: &mut Reader<'_>,
    count: &mut u64,
    each: &mut dyn FnMut(&FileRecord),
) -> Result<(), String> {
    let version = log.header.module_version(module);
    let Some(shape) = shape(module, version) else {
        return Err(format!("records of version {version} are not read"));
    };
    let order = log.header.order;
    let mut bytes = vec![0; (2 + shape.counters + shape.times) * 8];
    let mut record = FileRecord::default();
    while reader.fill(&mut bytes)? {
        let word = |place: usize| order.i64(&bytes, place * 8).unwrap_or(0);
        let time = |place: usize| order.f64(&bytes, place * 8).unwrap_or(0.0);
        if !shape.gone.is_empty() && word(2 + shape.gone.start) > 0 {
            continue;
        }
        (record.id, record.rank) = (word(0).cast_unsigned(), word(1));
        record.counters.clear();
        record.counters.extend((2..2 + shape.counters).map(word));
        record.counters.drain(shape.gone.clone());
        for Added { at, values } in shape.added {
            record.counters.splice(at..at, values.iter().copied());
        }
        record.times.clear();
        let first = 2 + shape.counters;
        record.times.extend((first..first + shape.times).map(time));
        if let Some(at) = shape.moments {
            record.times.splice(at..at, [-1.0, -1.0]);
        }
        *count += 1;
        each(&record);
    }
    Ok(())
}
