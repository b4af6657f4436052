//! A writer of Darshan logs: [`LogImage`] is a log as structures, [`example`] the log of a job.
//!
//! It writes all versions of the format, byte orders and compressions, of which an installed
//! Darshan writes one each. It shares no code with the reader, so that a mistake does not cancel
//! out.

use std::io::Write as _;

/// The order of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The lowest first.
    Little,
    /// The highest first.
    Big,
}

/// How regions are packed, as the header has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// zlib.
    Zlib,
    /// bzip2.
    Bzip2,
    /// Not at all.
    Not,
}

/// Numbers in an order of bytes.
#[derive(Debug)]
pub struct Bytes {
    order: Order,
    /// What was written.
    pub bytes: Vec<u8>,
}

impl Bytes {
    /// Nothing yet.
    pub const fn new(order: Order) -> Self {
        Self { order, bytes: Vec::new() }
    }

    /// A number of 64 bits.
    pub fn word(&mut self, value: u64) -> &mut Self {
        match self.order {
            Order::Little => self.bytes.extend(value.to_le_bytes()),
            Order::Big => self.bytes.extend(value.to_be_bytes()),
        }
        self
    }

    /// A number of 32 bits.
    pub fn half(&mut self, value: u32) -> &mut Self {
        match self.order {
            Order::Little => self.bytes.extend(value.to_le_bytes()),
            Order::Big => self.bytes.extend(value.to_be_bytes()),
        }
        self
    }

    /// A number with a sign.
    pub fn signed(&mut self, value: i64) -> &mut Self {
        self.word(value.cast_unsigned())
    }

    /// Seconds.
    pub fn seconds(&mut self, value: f64) -> &mut Self {
        self.word(value.to_bits())
    }

    /// A text in so many bytes, with zeros behind it.
    pub fn text(&mut self, text: &str, room: usize) -> &mut Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(room, 0);
        self.bytes.extend(bytes);
        self
    }
}

/// The region of a module.
#[derive(Clone, Debug)]
pub struct ModuleImage {
    /// Its number in the newest version of the format.
    pub number: usize,
    /// The version of its records.
    pub version: u32,
    /// Its records. Each part becomes a compressed stream of its own, as each rank writes one.
    pub parts: Vec<Vec<u8>>,
}

/// A log to be written.
#[derive(Clone, Debug)]
pub struct LogImage {
    /// The version of the format, behind `3.`.
    pub minor: u32,
    /// The order of bytes.
    pub order: Order,
    /// How regions are packed.
    pub packed: Packed,
    /// Bits of modules that are partial, by their newest numbers.
    pub partial: u64,
    /// Processes.
    pub ranks: i64,
    /// The command line and the table of mounts.
    pub command: String,
    /// Names by id.
    pub names: Vec<(u64, String)>,
    /// Modules, by number.
    pub modules: Vec<ModuleImage>,
}

/// What a job was called that is written.
pub const JOB: i64 = 4711;
/// When it began, in seconds since 1970.
pub const BEGAN: i64 = 1_700_000_000;
/// How many seconds it took.
pub const SECONDS: i64 = 12;

/// Where a module is in the header of a version.
fn place(number: usize, minor: u32) -> Option<usize> {
    let mut place = number;
    for (added, since) in [(4, 20), (6, 41)] {
        if minor < since {
            if number == added {
                return None;
            }
            place -= usize::from(number > added);
        }
    }
    Some(place)
}

impl LogImage {
    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let long = self.minor >= 41;
        let (count, size) = if long { (64, 1328) } else { (16, 360) };
        let mut regions: Vec<Vec<u8>> = vec![self.pack(&self.job())];
        regions.push(self.pack(&self.name_records()));
        let mut maps = vec![(0, 0); count];
        let mut versions = vec![0; count];
        let mut partial = 0u64;
        let mut offset = size + regions.iter().map(Vec::len).sum::<usize>();
        for module in &self.modules {
            let place = place(module.number, self.minor).expect("the version has the module");
            let mut region = Vec::new();
            let mut last: Option<(&Vec<u8>, Vec<u8>)> = None;
            for part in &module.parts {
                // Large parts that repeat are packed once.
                let packed = match &last {
                    Some((known, packed)) if *known == part => packed.clone(),
                    _ => self.pack(part),
                };
                region.extend(&packed);
                last = Some((part, packed));
            }
            maps[place] = (offset as u64, region.len() as u64);
            versions[place] = module.version;
            offset += region.len();
            regions.push(region);
        }
        for number in 0..64 {
            if self.partial & (1 << number) != 0 {
                partial |= 1 << place(number, self.minor).expect("the version has the module");
            }
        }
        let mut out = Bytes::new(self.order);
        out.text(&format!("3.{:02}", self.minor), 8).word(6_567_223);
        let kind = match self.packed {
            Packed::Zlib => 0,
            Packed::Bzip2 => 1,
            Packed::Not => 2,
        };
        out.bytes.extend([kind, 0, 0, 0]);
        if long {
            out.bytes.extend([0; 4]);
            out.word(partial);
        } else {
            out.half(partial as u32);
        }
        out.word((size + regions[0].len()) as u64).word(regions[1].len() as u64);
        for (offset, length) in maps {
            out.word(offset).word(length);
        }
        for version in versions {
            out.half(version);
        }
        assert_eq!(out.bytes.len(), size);
        out.bytes.extend(regions.concat());
        out.bytes
    }

    fn pack(&self, bytes: &[u8]) -> Vec<u8> {
        match self.packed {
            Packed::Zlib => {
                let level = flate2::Compression::default();
                let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), level);
                writer.write_all(bytes).unwrap();
                writer.finish().unwrap()
            }
            Packed::Bzip2 => {
                let level = bzip2::Compression::default();
                let mut writer = bzip2::write::BzEncoder::new(Vec::new(), level);
                writer.write_all(bytes).unwrap();
                writer.finish().unwrap()
            }
            Packed::Not => bytes.to_vec(),
        }
    }

    fn job(&self) -> Vec<u8> {
        let mut out = Bytes::new(self.order);
        out.signed(1000).signed(BEGAN);
        if self.minor >= 41 {
            out.signed(250_000_000).signed(BEGAN + SECONDS).signed(750_000_000);
        } else {
            out.signed(BEGAN + SECONDS);
        }
        out.signed(self.ranks).signed(JOB).text("lib_ver=3.4.5\nh=cb_nodes=4\n", 1024);
        let used = out.bytes.len();
        out.text(&self.command, 4096 - used);
        out.bytes
    }

    fn name_records(&self) -> Vec<u8> {
        let mut out = Bytes::new(self.order);
        for (id, name) in &self.names {
            out.word(*id);
            if self.minor >= 10 {
                out.text(name, name.len() + 1);
            } else {
                out.half(name.len() as u32).text(name, name.len());
            }
        }
        out.bytes
    }
}

/// A record of counters: numbers from `first` on, and times.
pub fn counters(order: Order, id: u64, rank: i64, counters: usize, times: usize) -> Vec<u8> {
    let mut out = Bytes::new(order);
    out.word(id).signed(rank);
    for place in 0..counters {
        out.signed(rank.max(0) + place as i64 + 1);
    }
    for place in 0..times {
        out.seconds(place as f64 / 8.0 + 0.125);
    }
    out.bytes
}

/// A record of extended traces: writes and reads of 100 bytes, one after the other.
pub fn traced(order: Order, id: u64, rank: i64, writes: i64, reads: i64, threads: bool) -> Vec<u8> {
    let mut out = Bytes::new(order);
    out.word(id).signed(rank).signed(0).text("node7", 64).signed(writes).signed(reads);
    for place in 0..writes + reads {
        out.signed(place * 100).signed(100);
        out.seconds(place as f64 / 4.0).seconds(place as f64 / 4.0 + 0.125);
        if threads {
            out.word(77);
        }
    }
    out.bytes
}

/// The layout of a file on Lustre, with components that are not used behind the one that is.
pub fn layout(order: Order, id: u64, version: u32, unused: usize) -> Vec<u8> {
    let mut out = Bytes::new(order);
    out.word(id).signed(-1);
    if version == 1 {
        out.signed(8).signed(1).signed(0).signed(1 << 20).signed(2);
    } else {
        out.signed(1 + unused as i64).signed(2);
        let sizes = std::iter::once(1 << 20).chain(std::iter::repeat_n(-1, unused));
        for size in sizes {
            out.signed(size).signed(if size > 0 { 2 } else { 0 });
            for _ in 0..5 {
                out.signed(0);
            }
            out.text("", 16);
        }
    }
    out.signed(5).signed(3);
    out.bytes
}

/// Numbers of modules.
pub const POSIX: usize = 1;
/// MPI-IO.
pub const MPI_IO: usize = 2;
/// Lustre.
pub const LUSTRE: usize = 8;
/// Streams.
pub const STDIO: usize = 9;
/// Extended traces of POSIX.
pub const DXT_POSIX: usize = 10;
/// Extended traces of MPI-IO.
pub const DXT_MPI_IO: usize = 11;

/// A job of two ranks with a shared file and one of each, with all modules in the versions that a
/// Darshan of this format had.
pub fn example(minor: u32, order: Order, packed: Packed) -> LogImage {
    let (posix, mpi_io, stdio, lustre, dxt_posix, dxt_mpi_io) = match minor {
        0 => (1, 1, 0, 1, 0, 0),
        10 => (3, 2, 1, 1, 1, 1),
        20 | 21 => (4, 3, 2, 1, 1, 2),
        _ => (4, 3, 2, 2, 2, 3),
    };
    let files = [(11, -1), (12, 0), (13, 1)];
    let all = |counts: (usize, usize)| -> Vec<Vec<u8>> {
        files.map(|(id, rank)| counters(order, id, rank, counts.0, counts.1)).to_vec()
    };
    let shape = match posix {
        1 => (68, 15),
        3 => (64, 17),
        _ => (69, 17),
    };
    let mut records = all(shape);
    if posix == 1 {
        // The first would be of a stream: the counter that says so has to be nothing.
        for record in &mut records {
            record[(2 + 6) * 8..(2 + 7) * 8].fill(0);
        }
    }
    let mut modules = vec![ModuleImage { number: POSIX, version: posix, parts: records }];
    let parts = all(if mpi_io < 3 { (51, 15) } else { (51, 17) });
    modules.push(ModuleImage { number: MPI_IO, version: mpi_io, parts });
    let parts = vec![layout(order, 11, lustre, 2), layout(order, 12, lustre, 0)];
    modules.push(ModuleImage { number: LUSTRE, version: lustre, parts });
    if stdio > 0 {
        let parts = all(if stdio < 2 { (13, 15) } else { (14, 15) });
        modules.push(ModuleImage { number: STDIO, version: stdio, parts });
    }
    for (number, version, with_threads) in
        [(DXT_POSIX, dxt_posix, dxt_posix >= 2), (DXT_MPI_IO, dxt_mpi_io, dxt_mpi_io >= 3)]
    {
        if version > 0 {
            let parts = vec![
                traced(order, 11, 0, 3, 2, with_threads),
                traced(order, 11, 1, 0, 4, with_threads),
                traced(order, 12, 0, 1, 0, with_threads),
            ];
            modules.push(ModuleImage { number, version, parts });
        }
    }
    let names = [(11, "/lustre/run/shared.nc"), (12, "/lustre/run/0.txt"), (13, "/home/me/1.txt")];
    LogImage {
        minor,
        order,
        packed,
        partial: 0,
        ranks: 2,
        command: "./model -n 2\nlustre\t/lustre\next4\t/\nnfs\t/home".into(),
        names: names.map(|(id, name)| (id, name.to_owned())).to_vec(),
        modules,
    }
}
