//! [`Job`]: the user, the command, the times and the mounts of a job. After its numbers the record
//! has texts: metadata, the command line and the table of mounts, in 4096 bytes altogether.

use std::collections::BTreeMap;

use crate::header::Header;
use crate::region::Reader;

/// Bytes of the record.
const RECORD: usize = 4096;
/// Bytes of the metadata in it.
const METADATA: usize = 1024;

/// A file system that was mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its type: `lustre`, `ext4`.
    pub kind: String,
    /// Where.
    pub path: String,
}

/// The job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The number of the user.
    pub user: i64,
    /// Nanoseconds since 1970 when it began.
    pub start_ns: i128,
    /// Nanoseconds since 1970 when it ended.
    pub end_ns: i128,
    /// How long it ran; logs before version 3.41 have full seconds, both ends included.
    pub length_ns: u64,
    /// Processes.
    pub processes: i64,
    /// The number that the scheduler gave it.
    pub id: i64,
    /// Keys and values: the library's version, hints, and what users add.
    pub metadata: BTreeMap<String, String>,
    /// The command line, perhaps cut.
    pub command: String,
    /// File systems, in the order of the log.
    pub mounts: Vec<Mount>,
}

/// The job, as far as it can be read, and what is wrong with its record.
pub(crate) fn read(bytes: &[u8], header: &Header) -> (Job, Option<String>) {
    // One byte more than there are: checksums stand behind the last.
    let mut record = vec![0; RECORD + 1];
    let mut reader = Reader::new(bytes, header.job, header);
    let mut filled = 0;
    let mut damage = None;
    while filled <= RECORD && damage.is_none() {
        match reader.read(&mut record[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(reason) => damage = Some(reason),
        }
    }
    if filled > RECORD {
        damage = Some("it is longer than a job record".into());
    }
    record.truncate(RECORD);
    // From 3.41 on both times have nanoseconds.
    let fine = header.version.minor >= 41;
    let words = if fine { 7 } else { 5 };
    if filled <= words * 8 {
        return (Job::default(), damage.or_else(|| Some("it ends within the job record".into())));
    }
    let word = |place: usize| header.order.i64(&record, place * 8).unwrap_or(0);
    let moment = |second: i64, nano: i64| i128::from(second) * 1_000_000_000 + i128::from(nano);
    let (start_ns, end_ns, rest) = if fine {
        (moment(word(1), word(2)), moment(word(3), word(4)), 5)
    } else {
        (moment(word(1), 0), moment(word(2), 0), 3)
    };
    let end_included = if fine { 0 } else { 1_000_000_000 };
    let length_ns = u64::try_from(end_ns - start_ns + end_included).unwrap_or(0);
    let (metadata, trailing) = record[words * 8..].split_at(METADATA);
    let trailing = until_zero(trailing);
    let mut lines = trailing.split('\n');
    let command = lines.next().unwrap_or_default().trim().to_owned();
    let mounts = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        Some(Mount { kind: words.next()?.to_owned(), path: words.next()?.to_owned() })
    });
    let pairs = until_zero(metadata);
    let pairs = pairs.split('\n').filter_map(|line| line.split_once('='));
    let job = Job {
        user: word(0),
        start_ns,
        end_ns,
        length_ns,
        processes: word(rest),
        id: word(rest + 1),
        metadata: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        command,
        mounts: mounts.collect(),
    };
    (job, damage)
}

/// A text that ends at the first zero.
fn until_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
