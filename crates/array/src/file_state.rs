//! [`FileState`]: one netCDF file of a dataset in either mode: communicator, file, header, records
//! and whether it is finished.
//!
//! A plain dataset has one; of a partitioned dataset the master has one, and each open partition
//! another. Collective steps of both modes are methods here. The file is marked
//! as unfinished (`cdf` instead of `CDF`) from its first change until [`FileState::finish`].

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use striate_comm::{Comm, CommError, Reduction, agree};
use striate_file::File;

use crate::format::{Alignment, Header, Type, Variable};
use crate::netcdf4::{self, Netcdf4State};
use crate::value::default_fill;
use crate::{ArrayError, OpenMode, Options, fill, relocate};

/// Alignment that the format itself prescribes.
const NATURAL: u64 = 4;
/// Alignment of large variables in a file that is not striped.
const PAGE: u64 = 4096;
/// Size from which on a variable is large in a file that is not striped.
const LARGE: u64 = 1 << 20;

/// One netCDF file of a dataset.
#[derive(Debug)]
pub(crate) struct FileState {
    pub(crate) comm: Arc<dyn Comm>,
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) header: Header,
    pub(crate) alignment: Alignment,
    /// Cached facts about records, which every access needs.
    pub(crate) record_info: RecordInfo,
    /// Fill mode of each variable: whether data that was never written reads as fill values.
    pub(crate) filled: Vec<bool>,
    pub(crate) variables: HashMap<String, u32>,
    pub(crate) mode: OpenMode,
    /// Whether the magic number of the file says that it is unfinished.
    pub(crate) unfinished: bool,
    /// Number of records in the header of the file.
    pub(crate) stated_records: u64,
    /// The name that the file is renamed to when it is finished, if it has a temporary one.
    pub(crate) publish_as: Option<PathBuf>,
    /// What a netCDF-4 file has beyond its definitions; `None` for a classic file.
    pub(crate) netcdf4: Option<Box<Netcdf4State>>,
}

/// Whether a step waits until its data is on stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    Buffered,
    Durable,
}

/// Facts about records that follow from the definitions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordInfo {
    /// Bytes from one record to the next.
    pub(crate) record_size: Option<u64>,
    /// Whether there are record variables.
    pub(crate) has_records: bool,
    /// Whether a record variable has fill mode.
    pub(crate) fills_records: bool,
}

impl FileState {
    /// The state of a file that was opened or created. The alignment is that of rank 0. Collective.
    pub(crate) fn new(
        file: File,
        path: PathBuf,
        header: Header,
        options: &Options,
        mode: OpenMode,
    ) -> Result<Self, ArrayError> {
        let comm = Arc::clone(file.comm());
        let alignment = common_alignment(comm.as_ref(), &file, options)?;
        let variables = header.variables.iter().zip(0..);
        let path_of = |variable: &Variable| header.path(variable.group, &variable.name);
        let variables = variables.map(|(variable, i)| (path_of(variable), i)).collect();
        let filled = vec![false; header.variables.len()];
        let stated_records = header.records;
        Ok(Self {
            comm,
            file,
            path,
            header,
            alignment,
            record_info: RecordInfo::default(),
            filled,
            variables,
            mode,
            unfinished: false,
            stated_records,
            publish_as: None,
            netcdf4: None,
        })
    }

    /// Makes an error of one rank an error of all; a rank with an error returns its own.
    /// Collective.
    pub(crate) fn agree<T>(&self, local: Result<T, ArrayError>) -> Result<T, ArrayError> {
        agree_among(self.comm.as_ref(), local)
    }

    /// Like [`FileState::agree`], and returns the largest of all ranks' numbers. Costs one
    /// reduction.
    pub(crate) fn agree_with_max<T, const N: usize>(
        &self,
        local: Result<T, ArrayError>,
        numbers: [u64; N],
    ) -> Result<(T, [u64; N]), ArrayError> {
        const MOST: usize = 12;
        const { assert!(N < MOST) };
        let mut all = [0; MOST];
        all[1..=N].copy_from_slice(&numbers);
        let value = self.agree_with_list(local, &mut all[..=N])?;
        let mut largest = [0; N];
        largest.copy_from_slice(&all[1..=N]);
        Ok((value, largest))
    }

    /// Like [`FileState::agree`], and replaces numbers by the largest of all ranks. The first
    /// number is not the caller's. Costs one reduction.
    pub(crate) fn agree_with_list<T>(
        &self,
        local: Result<T, ArrayError>,
        numbers: &mut [u64],
    ) -> Result<T, ArrayError> {
        if let Some(failed) = numbers.first_mut() {
            *failed = u64::from(local.is_err());
        }
        if self.comm.size() > 1 {
            self.comm.allreduce_u64(Reduction::Max, numbers)?;
        }
        if numbers.first().is_some_and(|&failed| failed > 0) { self.agree(local) } else { local }
    }

    /// Calls `work` on rank 0; all ranks get its error. Collective.
    pub(crate) fn on_rank_0(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), ArrayError>,
    ) -> Result<(), ArrayError> {
        let done = if self.comm.rank() == 0 { work(self) } else { Ok(()) };
        self.agree(done)
    }

    /// Writes the number of records to the header of a finished file; that of an unfinished one is
    /// written when it is finished. Collective; no rank may be writing.
    pub(crate) fn state_records(&mut self) -> Result<(), ArrayError> {
        // The records of a netCDF-4 file are lengths of dimensions, which a commit writes.
        let is_stated = self.header.records == self.stated_records;
        if self.unfinished || is_stated || self.netcdf4.is_some() {
            return Ok(());
        }
        self.on_rank_0(Self::write_records)?;
        self.stated_records = self.header.records;
        Ok(())
    }

    /// Writes the number of records, after extending the file to hold them. Called on rank 0 while
    /// no rank is writing.
    pub(crate) fn write_records(&mut self) -> Result<(), ArrayError> {
        self.extend_to_end()?;
        if self.header.records != self.stated_records {
            let (offset, bytes) = self.header.records_field();
            self.file.write_at(offset, bytes.as_slice())?;
        }
        Ok(())
    }

    /// Extends the file to the length that its header implies, as netCDF's tools expect, even if
    /// data was never written. Called on rank 0 while no rank is writing.
    fn extend_to_end(&mut self) -> Result<(), ArrayError> {
        if let Some(end) = self.header.end()
            && self.file.size()? < end
        {
            self.file.write_at(end - 1, &[0])?;
        }
        Ok(())
    }

    /// Reads the number of records from the file again: another program may be writing it.
    /// Collective.
    pub(crate) fn reread_records(&mut self, has_records: bool) -> Result<(), ArrayError> {
        let (offset, bytes) = self.header.records_field();
        let stated = if self.comm.rank() == 0 && has_records {
            self.read_stated(offset, bytes.len())
        } else {
            Ok(0)
        };
        let own = *stated.as_ref().unwrap_or(&0);
        let (_, [stated]) = self.agree_with_max(stated, [own])?;
        // The number never decreases: a writer that starts over makes another dataset.
        self.header.records = self.header.records.max(stated);
        Ok(())
    }

    /// The number of records in the header of the file, limited by the length of the file.
    fn read_stated(&mut self, offset: u64, len: usize) -> Result<u64, ArrayError> {
        let mut bytes = [0; 8];
        let field = &mut bytes[8 - len.min(8)..];
        self.file.read_at(offset, &mut *field)?;
        let is_streaming = field.iter().all(|&byte| byte == u8::MAX);
        if !self.record_info.has_records {
            // The records are in partitions, which are written before the master.
            return Ok(u64::from_be_bytes(bytes));
        }
        let complete = self.header.records_in(self.file.size()?);
        Ok(if is_streaming { complete } else { u64::from_be_bytes(bytes).min(complete) })
    }

    /// Updates [`FileState::record_info`]; called when the definitions are complete.
    pub(crate) fn update_record_info(&mut self) {
        let variables = self.header.variables.iter().zip(&self.filled);
        let of_records = variables.filter(|(variable, _)| self.header.is_record(variable));
        let (mut has_records, mut fills_records) = (false, false);
        for (_, &filled) in of_records {
            has_records = true;
            fills_records |= filled;
        }
        let record_size = self.header.record_size();
        self.record_info = RecordInfo { record_size, has_records, fills_records };
    }

    /// The fill value of a variable, as bytes in a classic file; of an enumeration that of its
    /// integers, of other types of users zeros.
    pub(crate) fn fill_value(&self, variable: usize) -> [u8; 8] {
        let variable = &self.header.variables[variable];
        let base = self.header.base_type(variable.external);
        if !base.is_number() && base != Type::Char {
            return [0; 8];
        }
        let given = variable.attributes.iter().find(|attribute| attribute.name == "_FillValue");
        let mut fill = default_fill(base);
        if let Some(given) = given
            && given.values.external() == variable.external
            && !given.values.is_empty()
        {
            let size = base.size() as usize;
            if let Some(bytes) = given.values.to_bytes().get(..size) {
                fill[..size].copy_from_slice(bytes);
            }
            if base != variable.external && cfg!(target_endian = "little") {
                fill[..size].reverse();
            }
        }
        fill
    }

    /// Applies new definitions to the file, which becomes unfinished: data moves if its offset
    /// changes, the header is written, and new variables in fill mode are filled. `before` is the
    /// header in the file. Collective.
    pub(crate) fn write_definition(&mut self, before: Option<&Header>) -> Result<(), ArrayError> {
        self.unfinished = true;
        if let Some(before) = before {
            relocate::relocate(self, before)?;
        }
        self.on_rank_0(Self::write_header)?;
        self.stated_records = self.header.records;
        let old = before.map_or(0, |before| before.variables.len());
        fill::fill_new_variables(self, old)
    }

    /// Writes the header, with the magic number of an unfinished file. Called on rank 0.
    pub(crate) fn write_header(&mut self) -> Result<(), ArrayError> {
        let mut bytes = self.header.encode();
        bytes[..4].copy_from_slice(&self.header.format.unfinished_magic());
        self.file.write_at(0, bytes.as_slice())?;
        Ok(())
    }

    /// Writes the magic number of an unfinished file. Called on rank 0.
    pub(crate) fn mark_unfinished(&mut self) -> Result<(), ArrayError> {
        let magic = self.header.format.unfinished_magic();
        self.file.write_at(0, &magic)?;
        Ok(())
    }

    /// Finishes the file: writes the number of records, then the magic number. With
    /// [`Durability::Durable`] the data is synchronised before the magic number is written, and the
    /// file after. Collective.
    pub(crate) fn finish(&mut self, durability: Durability) -> Result<(), ArrayError> {
        if self.netcdf4.is_some() {
            return netcdf4::finish(self, durability);
        }
        // No rank continues before the writes of all ranks are done.
        self.agree(Ok(()))?;
        self.on_rank_0(Self::write_records)?;
        self.stated_records = self.header.records;
        if durability == Durability::Durable {
            self.file.sync()?;
        }
        if self.unfinished {
            self.on_rank_0(|state| {
                let magic = state.header.format.magic();
                state.file.write_at(0, &magic)?;
                Ok(())
            })?;
            self.unfinished = false;
            if durability == Durability::Durable {
                self.file.sync()?;
            }
        }
        Ok(())
    }
}

/// Makes an error of one rank an error of all; a rank with an error returns its own. Collective.
pub(crate) fn agree_among<T>(
    comm: &dyn Comm,
    local: Result<T, ArrayError>,
) -> Result<T, ArrayError> {
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

/// The alignment of rank 0. In striped files the header, the records and variables of a stripe or
/// more begin on a stripe \[BARTZ\]; elsewhere large variables begin on pages. Hints apply to all
/// variables, as in PnetCDF. Collective.
fn common_alignment(
    comm: &dyn Comm,
    file: &File,
    options: &Options,
) -> Result<Alignment, ArrayError> {
    let stripe = file.stripe_unit();
    let section = stripe.unwrap_or(NATURAL);
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
        // Each chunk has 8 bytes.
        u64::from_le_bytes(chunk.try_into().unwrap_or_default()).max(1)
    });
    let mut next = || numbers.next().unwrap_or(1);
    Ok(Alignment { header: next(), fixed: next(), fixed_from: next(), record: next() })
}

/// An error if the format of the header does not have the type.
pub(crate) fn check_type(header: &Header, what: &str, external: Type) -> Result<(), ArrayError> {
    if external.is_in(header.format) {
        let is_known = match external {
            Type::User(id) => header.user_type(external).is_some_and(|one| one.size == id.size),
            Type::Text(size) => size > 0,
            _ => true,
        };
        if is_known {
            return Ok(());
        }
        let reason = "it has a type that the dataset does not have".into();
        return Err(ArrayError::Definition { what: what.into(), reason });
    }
    Err(ArrayError::NoSuchType { what: what.into(), external, format: header.format })
}
