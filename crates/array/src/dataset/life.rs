//! Records, redefinition, and how a dataset is made durable, closed and given up.

use std::sync::Arc;

use striate_file::{File, Stats};

use super::Dataset;
use crate::state::{State, agree_on};
use crate::{ArrayError, Definition, PartitionInfo, PartitionStats, fill};

impl Dataset {
    /// Makes the records be at least so many, filling those that are new where fill values are asked
    /// for. Collective; the largest number counts.
    pub fn grow(&mut self, records: u64) -> Result<(), ArrayError> {
        let refuse = |reason: String| {
            Err(ArrayError::Definition { what: format!("growth to {records} records"), reason })
        };
        let format = self.state.header.format;
        let possible = if !self.state.write {
            refuse("the dataset was opened for reading only".into())
        } else if records > format.max_records() {
            refuse(format!("they are more than {format} can count"))
        } else if !self.can_hold(records) {
            refuse("they would end beyond 2^63 - 1 bytes, where no file reaches".into())
        } else {
            Ok(())
        };
        let possible = possible.and_then(|()| self.check_growth(records));
        let known = self.header().records;
        let ((), [records]) = self.state.agree_with(possible, [records.max(known)])?;
        self.make_records(records)?;
        self.set_records(records);
        self.state_records()
    }

    /// Goes back to define mode. Collective.
    pub fn redefine(mut self) -> Result<Definition, ArrayError> {
        let possible = if self.state.write {
            Ok(())
        } else {
            let what = "redefinition".into();
            let reason = "the dataset was opened for reading only".into();
            Err(ArrayError::Definition { what, reason })
        };
        self.state.agree(possible)?;
        self.learn_records()?;
        let Self { mut state, options, mut parted, .. } = self;
        if let Some(parted) = &mut parted {
            parted.needs_all("a redefinition")?;
            state.filled.clone_from(&parted.filled);
            // What the program sees is what is defined; the master's own header stays with the parts.
            parted.master = std::mem::replace(&mut state.header, parted.logical.clone());
        }
        let before = state.header.clone();
        Ok(Definition::new(state, Some(before), options, parted))
    }

    /// Makes all ranks' data durable and seen by all, and the number of records known to all. A new
    /// file is a whole one from here on. A dataset that is only read learns of records that others
    /// have added. Collective.
    pub fn sync(&mut self) -> Result<(), ArrayError> {
        self.learn_records()?;
        if self.state.write {
            return self.finish(true);
        }
        self.state.reread_records(self.derived().has_records)?;
        self.set_records(self.state.header.records);
        Ok(())
    }

    /// Closes it. Collective.
    pub fn close(mut self) -> Result<(), ArrayError> {
        let whole = self
            .learn_records()
            .and_then(|()| if self.state.write { self.finish(false) } else { Ok(()) });
        let Self { state, parted, .. } = self;
        let comm = Arc::clone(&state.comm);
        let closed = state.file.close().map_err(ArrayError::from);
        let parts = parted.map_or(Ok(()), |parted| agree_on(comm.as_ref(), parted.close()));
        whole.and(parts).and(closed)
    }

    /// Gives up: closes it without making a new file a whole one, which is deleted. Collective.
    pub fn abort(self) -> Result<(), ArrayError> {
        let State { comm, file, path, unfinished, .. } = self.state;
        let closed = file.close().map_err(ArrayError::from);
        if let Some(parted) = self.parted {
            return parted.give_up(comm.as_ref(), closed, unfinished.then_some(path.as_path()));
        }
        closed?;
        let deleted = if unfinished && comm.rank() == 0 { File::delete(&path) } else { Ok(()) };
        agree_on(comm.as_ref(), deleted.map_err(ArrayError::from))
    }

    /// What this rank's accesses have cost so far.
    pub fn stats(&self) -> Stats {
        let own = self.state.file.stats();
        self.parted.as_ref().map_or(own, |parted| own + parted.stats())
    }

    /// The partitions, if it has some.
    pub fn partitions(&self) -> Option<&[PartitionInfo]> {
        self.parted.as_ref().map(|parted| parted.infos.as_slice())
    }

    /// What was found out about storage targets when the partitions were laid out: a summary, and a line
    /// for each target. `None` if nothing was measured.
    pub fn partition_probe(&self) -> Option<&str> {
        self.parted.as_ref().and_then(|parted| parted.ties.probe.as_deref())
    }

    /// What the exchange with partitions has cost this rank so far.
    pub fn partition_stats(&self) -> PartitionStats {
        self.parted.as_ref().map(|parted| parted.costs).unwrap_or_default()
    }

    /// The largest number of records that a rank knows of becomes everyone's. Collective.
    fn learn_records(&mut self) -> Result<(), ArrayError> {
        if self.derived().has_records {
            let known = self.header().records;
            let ((), [records]) = self.state.agree_with(Ok(()), [known])?;
            self.set_records(records);
        }
        Ok(())
    }

    /// An error if so many records cannot be made because partitions are missing.
    pub(super) fn check_growth(&self, records: u64) -> Result<(), ArrayError> {
        match &self.parted {
            Some(parted) if records > self.header().records => parted.needs_all("a new record"),
            _ => Ok(()),
        }
    }

    /// Fills what is new if there are to be so many records. Collective.
    pub(super) fn make_records(&mut self, records: u64) -> Result<(), ArrayError> {
        let known = self.header().records;
        if records <= known || !self.derived().fills_records {
            return Ok(());
        }
        if self.state.derived.fills_records {
            fill::fill_records(&mut self.state, known..records)?;
        }
        let Some(parted) = &mut self.parted else { return Ok(()) };
        let filled = parted.on_parts(|part| {
            if part.state.derived.fills_records {
                fill::fill_records(&mut part.state, known..records)?;
            }
            Ok(())
        });
        self.state.agree(filled)
    }
}
