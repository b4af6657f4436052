//! Records, redefinition, `sync`, `close` and `abort` of a dataset, and its statistics.

use std::sync::Arc;

use striate_file::{File, Stats};

use super::Dataset;
use crate::file_state::{Durability, FileState, agree_among};
use crate::{ArrayError, Definition, PartitionInfo, PartitionStats, fill};

impl Dataset {
    /// Extends the dataset to at least `records` records; new records of variables in fill mode are
    /// filled. Collective; the largest number of all ranks is used.
    ///
    /// Of a netCDF-4 dataset with several unlimited dimensions none is that of the records:
    /// [`Dataset::grow_dimension`] names one.
    pub fn grow(&mut self, records: u64) -> Result<(), ArrayError> {
        let refuse = |reason: String| {
            Err(ArrayError::Definition { what: format!("growth to {records} records"), reason })
        };
        if self.state.header.format.is_hdf5() {
            let dimensions = self.dimensions().zip(&self.state.header.dimensions);
            let unlimited: Vec<_> =
                dimensions.filter(|(_, it)| it.is_unlimited()).map(|(id, _)| id).collect();
            return match unlimited.as_slice() {
                [one] => self.grow_dimension(*one, records),
                all => refuse(format!("there are {} unlimited dimensions", all.len())),
            };
        }
        let format = self.state.header.format;
        let possible = if !self.state.mode.is_writable() {
            refuse("the dataset was opened for reading only".into())
        } else if records > format.max_records() {
            refuse(format!("they are more than {format} can count"))
        } else if !self.can_hold(records) {
            refuse("they would end beyond 2^63 - 1 bytes, which no file can reach".into())
        } else {
            Ok(())
        };
        let possible = possible.and_then(|()| self.check_growth(records));
        let known = self.header().records;
        let ((), [records]) = self.state.agree_with_max(possible, [records.max(known)])?;
        self.make_records(records)?;
        self.set_records(records);
        self.state_records()
    }

    /// Returns to define mode (netCDF's `redef`). Collective.
    pub fn redefine(mut self) -> Result<Definition, ArrayError> {
        let possible = if self.state.mode.is_writable() {
            Ok(())
        } else {
            let what = "redefinition".into();
            let reason = "the dataset was opened for reading only".into();
            Err(ArrayError::Definition { what, reason })
        };
        self.state.agree(possible)?;
        self.flush_deferred()?;
        self.flush_heap_values()?;
        if self.state.netcdf4.is_some() && !self.state.unfinished {
            // Definitions that are aborted take nothing with them that was written before.
            if self.partitioned.is_some() {
                self.commit_partitioned(Durability::Buffered)?;
            } else {
                self.state.finish(Durability::Buffered)?;
            }
        }
        self.agree_on_records()?;
        let Self { mut state, options, mut partitioned, .. } = self;
        if let Some(partitioned) = &mut partitioned {
            partitioned.needs_all("a redefinition")?;
            state.filled.clone_from(&partitioned.filled);
            // The program redefines the logical header; the master's own header is stored
            // meanwhile.
            partitioned.master = std::mem::replace(&mut state.header, partitioned.logical.clone());
        }
        let before = state.header.clone();
        Ok(Definition::new(state, Some(before), options, partitioned))
    }

    /// Makes the data of all ranks durable and visible to all, and the number of records known to
    /// all. From then on a new file is finished. A read-only dataset gets the number of records
    /// from the file again, in case another program has added some; that of a netCDF-4 file stays
    /// as it was when the file was opened. Collective.
    pub fn sync(&mut self) -> Result<(), ArrayError> {
        self.flush_deferred()?;
        self.flush_heap_values()?;
        self.agree_on_records()?;
        if self.state.mode.is_writable() {
            return self.finish(Durability::Durable);
        }
        if self.state.netcdf4.is_some() {
            return Ok(());
        }
        self.state.reread_records(self.record_info().has_records)?;
        self.set_records(self.state.header.records);
        Ok(())
    }

    /// Closes the dataset; a new file is finished. Collective.
    pub fn close(mut self) -> Result<(), ArrayError> {
        let flushed = self.flush_deferred().and_then(|()| self.flush_heap_values());
        let whole = flushed.and_then(|()| self.agree_on_records()).and_then(|()| {
            if self.state.mode.is_writable() { self.finish(Durability::Buffered) } else { Ok(()) }
        });
        let Self { state, partitioned, .. } = self;
        let comm = Arc::clone(&state.comm);
        let closed = state.file.close().map_err(ArrayError::from);
        let parts = partitioned
            .map_or(Ok(()), |partitioned| agree_among(comm.as_ref(), partitioned.close()));
        whole.and(parts).and(closed)
    }

    /// Closes the dataset; a new file is deleted instead of finished. Collective.
    pub fn abort(self) -> Result<(), ArrayError> {
        let FileState { comm, file, path, unfinished, .. } = self.state;
        let closed = file.close().map_err(ArrayError::from);
        if let Some(partitioned) = self.partitioned {
            return partitioned.abort(comm.as_ref(), closed, unfinished.then_some(path.as_path()));
        }
        closed?;
        let deleted = if unfinished && comm.rank() == 0 { File::delete(&path) } else { Ok(()) };
        agree_among(comm.as_ref(), deleted.map_err(ArrayError::from))
    }

    /// Statistics of this rank's accesses so far.
    pub fn stats(&self) -> Stats {
        let own = self.state.file.stats();
        self.partitioned.as_ref().map_or(own, |partitioned| own + partitioned.stats())
    }

    /// The partitions; `None` for a dataset without.
    pub fn partitions(&self) -> Option<&[PartitionInfo]> {
        self.partitioned.as_ref().map(|partitioned| partitioned.infos.as_slice())
    }

    /// The result of the probe of the storage targets when the dataset was created: a summary, and
    /// a line for each target. `None` if there was no probe.
    pub fn partition_probe(&self) -> Option<&str> {
        self.partitioned.as_ref().and_then(|partitioned| partitioned.table.probe.as_deref())
    }

    /// Statistics of this rank's exchange with partitions so far.
    pub fn partition_stats(&self) -> PartitionStats {
        self.partitioned.as_ref().map(|partitioned| partitioned.costs).unwrap_or_default()
    }

    /// Sets the number of records of all ranks to the largest that any rank knows. Collective.
    fn agree_on_records(&mut self) -> Result<(), ArrayError> {
        if self.record_info().has_records {
            let known = self.header().records;
            let ((), [records]) = self.state.agree_with_max(Ok(()), [known])?;
            self.set_records(records);
        }
        Ok(())
    }

    /// An error if `records` needs new records while partitions are missing.
    pub(super) fn check_growth(&self, records: u64) -> Result<(), ArrayError> {
        match &self.partitioned {
            Some(partitioned) if records > self.header().records => {
                partitioned.needs_all("a new record")
            }
            _ => Ok(()),
        }
    }

    /// Fills the new records of variables in fill mode, up to `records`. Collective.
    pub(super) fn make_records(&mut self, records: u64) -> Result<(), ArrayError> {
        let known = self.header().records;
        if records <= known || !self.record_info().fills_records {
            return Ok(());
        }
        if self.state.record_info.fills_records {
            fill::fill_records(&mut self.state, known..records)?;
        }
        let Some(partitioned) = &mut self.partitioned else { return Ok(()) };
        let filled = partitioned.for_each_own(|part| {
            if part.state.record_info.fills_records {
                fill::fill_records(&mut part.state, known..records)?;
            }
            Ok(())
        });
        self.state.agree(filled)
    }
}
