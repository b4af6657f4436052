//! [`State`]: what a dataset has in both of its modes, and what ranks do together in both.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use striate_comm::{Comm, CommError, Reduction, agree};
use striate_file::File;

use crate::format::{Alignment, DecodeError, Header, Problem, Type};
use crate::value::default_fill;
use crate::{ArrayError, Options};

/// Where the data of small variables begins is the format's business.
const ANYWHERE: u64 = 4;
/// Large variables begin on pages.
const PAGE: u64 = 4096;
/// What is large on a file that is not striped.
const LARGE: u64 = 1 << 20;
/// Headers longer than this are not read: nobody has one, and it has to be held in memory.
const LONGEST_HEADER: u64 = 1 << 30;
/// What is read of a file before its header's length is known.
const FIRST_READ: u64 = 64 << 10;

/// A dataset, in whichever mode.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) comm: Arc<dyn Comm>,
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) header: Header,
    pub(crate) alignment: Alignment,
    /// What follows from the definitions, and is asked for with every access.
    pub(crate) derived: Derived,
    /// Whether data of a variable that is not written reads as fill values.
    pub(crate) filled: Vec<bool>,
    pub(crate) variables: HashMap<String, u32>,
    pub(crate) write: bool,
    /// The file's first bytes say that it is unfinished.
    pub(crate) unfinished: bool,
    /// Records as the file's header states them.
    pub(crate) stated_records: u64,
    /// The name that the file gets when it is finished, if it has another until then.
    pub(crate) publish: Option<PathBuf>,
}

/// What follows from definitions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Derived {
    /// Bytes from one record to the next.
    pub(crate) record_size: Option<u64>,
    /// Whether there are variables that grow.
    pub(crate) has_records: bool,
    /// Whether new records of some variable are filled.
    pub(crate) fills_records: bool,
}

impl State {
    /// Of a file that was opened or created. The alignment of rank 0 counts. Collective.
    pub(crate) fn new(
        file: File,
        path: PathBuf,
        header: Header,
        options: &Options,
        write: bool,
    ) -> Result<Self, ArrayError> {
        let comm = Arc::clone(file.comm());
        let alignment = common_alignment(comm.as_ref(), &file, options)?;
        let variables = header.variables.iter().zip(0..);
        let variables = variables.map(|(variable, i)| (variable.name.clone(), i)).collect();
        let filled = vec![false; header.variables.len()];
        let stated_records = header.records;
        Ok(Self {
            comm,
            file,
            path,
            header,
            alignment,
            derived: Derived::default(),
            filled,
            variables,
            write,
            unfinished: false,
            stated_records,
            publish: None,
        })
    }

    /// Makes an error of one rank an error of all; each that has one keeps its own. Collective.
    pub(crate) fn agree<T>(&self, local: Result<T, ArrayError>) -> Result<T, ArrayError> {
        agree_on(self.comm.as_ref(), local)
    }

    /// As [`State::agree`], and finds the largest of the ranks' numbers. Costs one reduction.
    pub(crate) fn agree_with<T, const N: usize>(
        &self,
        local: Result<T, ArrayError>,
        numbers: [u64; N],
    ) -> Result<(T, [u64; N]), ArrayError> {
        let mut all = [0; 8];
        all[0] = u64::from(local.is_err());
        all[1..=N].copy_from_slice(&numbers);
        if self.comm.size() > 1 {
            self.comm.allreduce_u64(Reduction::Max, &mut all[..=N])?;
        }
        if all[0] > 0 {
            return self.agree(local).map(|value| (value, numbers));
        }
        let mut largest = [0; N];
        largest.copy_from_slice(&all[1..=N]);
        local.map(|value| (value, largest))
    }

    /// Does something on rank 0 alone; all ranks learn whether it failed. Collective.
    pub(crate) fn on_first(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), ArrayError>,
    ) -> Result<(), ArrayError> {
        let done = if self.comm.rank() == 0 { work(self) } else { Ok(()) };
        self.agree(done)
    }

    /// Makes the header of a whole file state the records that there are. One that is unfinished states
    /// nothing that counts. Collective; no rank is writing.
    pub(crate) fn state_records(&mut self) -> Result<(), ArrayError> {
        if self.unfinished || self.header.records == self.stated_records {
            return Ok(());
        }
        self.on_first(Self::write_records)?;
        self.stated_records = self.header.records;
        Ok(())
    }

    /// Writes the number of records, once the file is long enough for them. Rank 0 does so while no
    /// rank is writing.
    pub(crate) fn write_records(&mut self) -> Result<(), ArrayError> {
        self.reach_end()?;
        if self.header.records != self.stated_records {
            let (offset, bytes) = self.header.records_field();
            self.file.write_at(offset, bytes.as_slice())?;
        }
        Ok(())
    }

    /// Makes the file as long as it is when everything is written: what never was is there all the
    /// same, as netCDF's tools expect. Rank 0 does so while no rank is writing.
    fn reach_end(&mut self) -> Result<(), ArrayError> {
        if let Some(end) = self.header.end()
            && self.file.size()? < end
        {
            self.file.write_at(end - 1, &[0])?;
        }
        Ok(())
    }

    /// Looks up how many records the file states now: somebody else may be writing it. Collective.
    pub(crate) fn reread_records(&mut self, has_records: bool) -> Result<(), ArrayError> {
        let (offset, bytes) = self.header.records_field();
        let stated = if self.comm.rank() == 0 && has_records {
            self.stated_now(offset, bytes.len())
        } else {
            Ok(0)
        };
        let own = *stated.as_ref().unwrap_or(&0);
        let (_, [stated]) = self.agree_with(stated, [own])?;
        // Records do not become fewer; a writer that begins anew makes another dataset.
        self.header.records = self.header.records.max(stated);
        Ok(())
    }

    /// The number of records in the file, as far as they are there.
    fn stated_now(&mut self, offset: u64, len: usize) -> Result<u64, ArrayError> {
        let mut bytes = [0; 8];
        let room = &mut bytes[8 - len.min(8)..];
        self.file.read_at(offset, &mut *room)?;
        let all_ones = room.iter().all(|&byte| byte == u8::MAX);
        if !self.derived.has_records {
            // Records are in partitions, which have them before it is stated.
            return Ok(u64::from_be_bytes(bytes));
        }
        let held = self.header.records_in(self.file.size()?);
        Ok(if all_ones { held } else { u64::from_be_bytes(bytes).min(held) })
    }

    /// To be called when the definitions are complete.
    pub(crate) fn derive(&mut self) {
        let variables = self.header.variables.iter().zip(&self.filled);
        let of_records = variables.filter(|(variable, _)| self.header.is_record(variable));
        let (mut has_records, mut fills_records) = (false, false);
        for (_, &filled) in of_records {
            has_records = true;
            fills_records |= filled;
        }
        let record_size = self.header.record_size();
        self.derived = Derived { record_size, has_records, fills_records };
    }

    /// The bytes that stand for a value that was not written, or is out of range.
    pub(crate) fn fill_value(&self, variable: usize) -> [u8; 8] {
        let variable = &self.header.variables[variable];
        let given = variable.attributes.iter().find(|attribute| attribute.name == "_FillValue");
        let mut fill = default_fill(variable.external);
        if let Some(given) = given
            && given.values.external() == variable.external
            && !given.values.is_empty()
        {
            let size = variable.external.size() as usize;
            fill[..size].copy_from_slice(&given.values.to_bytes()[..size]);
        }
        fill
    }
}

pub(crate) fn agree_on<T>(comm: &dyn Comm, local: Result<T, ArrayError>) -> Result<T, ArrayError> {
    let reason = match &local {
        Ok(_) | Err(ArrayError::Rank { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    let others = match agree(comm, reason) {
        Ok(()) => return local,
        Err(CommError::RankFailed { rank, reason }) => ArrayError::Rank { rank, reason },
        Err(error) => error.into(),
    };
    match local {
        Ok(_) | Err(ArrayError::Rank { .. }) => Err(others),
        Err(own) => Err(own),
    }
}

/// On striped files everything that is not small begins on a stripe \[BARTZ\]; elsewhere large variables
/// begin on pages. What hints say goes for all variables, as in PnetCDF.
fn common_alignment(
    comm: &dyn Comm,
    file: &File,
    options: &Options,
) -> Result<Alignment, ArrayError> {
    let stripe = file.stripe_unit();
    let section = stripe.unwrap_or(ANYWHERE);
    let large = stripe.unwrap_or(PAGE);
    let mut bytes = Vec::new();
    for number in [
        options.header_align.unwrap_or(section),
        options.fixed_align.unwrap_or(large),
        options.fixed_align.map_or_else(|| stripe.unwrap_or(LARGE), |_| 0),
        options.record_align.unwrap_or(section),
    ] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    comm.broadcast(0, &mut bytes)?;
    let mut numbers = bytes.chunks_exact(8).map(|chunk| {
        // Of 8 bytes each.
        u64::from_le_bytes(chunk.try_into().unwrap_or_default()).max(1)
    });
    let mut next = || numbers.next().unwrap_or(1);
    Ok(Alignment { header: next(), fixed: next(), fixed_from: next(), record: next() })
}

/// Reads the header on rank 0 and gives it to all. `unfinished` files are an error, unless they are
/// welcome. Collective.
pub(crate) fn read_header(file: &mut File, unfinished: bool) -> Result<Header, ArrayError> {
    let comm = Arc::clone(file.comm());
    let name = file.name();
    let mut bytes = Vec::new();
    let read = if comm.rank() == 0 { first_bytes(file, &mut bytes, unfinished) } else { Ok(None) };
    let header = agree_on(comm.as_ref(), read)?;
    comm.broadcast(0, &mut bytes)?;
    match header {
        Some(header) => Ok(header),
        // What rank 0 could decode the others can.
        None => Header::decode(&bytes)
            .map(|(mut header, _)| {
                // Rank 0 has put the number of records behind.
                let records = bytes.last_chunk::<8>().map_or(0, |last| u64::from_le_bytes(*last));
                header.records = records;
                header
            })
            .map_err(|source| ArrayError::Header { file: name, source }),
    }
}

/// Reads and decodes the header; leaves its bytes, and behind them the number of records.
fn first_bytes(
    file: &mut File,
    bytes: &mut Vec<u8>,
    unfinished: bool,
) -> Result<Option<Header>, ArrayError> {
    let name = file.name();
    let file_len = file.size()?;
    let mut wanted = FIRST_READ;
    let (mut header, len) = loop {
        let have = bytes.len();
        bytes.resize(wanted.min(file_len) as usize, 0);
        let got = file.read_at(have as u64, &mut bytes[have..])? as usize;
        bytes.truncate(have + got);
        if unfinished && bytes.starts_with(b"cdf") {
            bytes[..3].copy_from_slice(b"CDF");
        }
        match Header::decode(bytes) {
            Ok(decoded) => break decoded,
            Err(DecodeError { problem: Problem::Unfinished { .. }, .. }) => {
                return Err(ArrayError::Unfinished { file: name });
            }
            Err(DecodeError { problem: Problem::Truncated { needed }, .. })
                if (bytes.len() as u64) < file_len && needed <= file_len.min(LONGEST_HEADER) =>
            {
                wanted = needed.max(2 * wanted).min(LONGEST_HEADER);
            }
            Err(source) => return Err(ArrayError::Header { file: name, source }),
        }
    };
    if header.records == Header::STREAMING {
        header.records = header.records_in(file_len);
    }
    bytes.truncate(len as usize);
    bytes.extend_from_slice(&header.records.to_le_bytes());
    Ok(Some(header))
}

/// Whether a type can be in files of the header's format.
pub(crate) fn check_type(header: &Header, what: &str, external: Type) -> Result<(), ArrayError> {
    if external.is_in(header.format) {
        return Ok(());
    }
    Err(ArrayError::NoSuchType { what: what.into(), external, format: header.format })
}
