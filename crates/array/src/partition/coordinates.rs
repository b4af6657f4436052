//! Copies of coordinate variables in the partitions, by which other tools combine the partitions.
//!
//! A coordinate variable (one dimension, and its name) that stays in the master is copied to every
//! partition that uses its dimension: for a divided dimension only the indices of the partition.
//! Accesses use the variable in the master; the copies are updated when the dataset is synchronised
//! or closed, if they may have changed. A dimension without a coordinate variable gets none.

use super::partition_io::PartitionPiece;
use super::selection::Hyperslab;
use crate::access::IoMode;
use crate::{ArrayError, Dataset};

/// Elements that are copied at once.
const CHUNK: u64 = 1 << 17;

impl Dataset {
    /// Updates the copies in the partitions. Collective.
    pub(super) fn copy_coordinates(&mut self) -> Result<(), ArrayError> {
        let Some(partitioned) = &self.partitioned else { return Ok(()) };
        if partitioned.scheme.coordinates.is_empty() || !self.state.mode.is_writable() {
            return Ok(());
        }
        let stale = u64::from(partitioned.stale_coordinates);
        let ((), [stale]) = self.state.agree_with_max(Ok(()), [stale])?;
        if stale == 0 {
            return Ok(());
        }
        // The copies are read from the master, which other ranks may have written.
        self.state.file.sync()?;
        let copied = self.copy_coordinates_to_own();
        self.state.agree(copied)?;
        if let Some(partitioned) = &mut self.partitioned {
            partitioned.stale_coordinates = false;
        }
        Ok(())
    }

    /// Copies the coordinates to the partitions of this rank's group. The first rank of a group
    /// does so.
    fn copy_coordinates_to_own(&mut self) -> Result<(), ArrayError> {
        let Some(mut partitioned) = self.partitioned.take() else { return Ok(()) };
        let mut done = Ok(());
        if partitioned.is_first() {
            for n in 0..partitioned.own.len() {
                let members =
                    partitioned.scheme.members(&partitioned.logical, partitioned.own[n].index);
                for (own, member) in members.iter().enumerate().filter(|(_, it)| it.is_copy) {
                    let variable = &self.state.header.variables[member.variable];
                    let size = variable.external.size();
                    let all = self.state.header.shape(variable).first().copied().unwrap_or(0);
                    let range = member.indices.as_ref().map_or(0..all, |it| it.range.clone());
                    let to = &mut partitioned.own[n].data;
                    done = done
                        .and_then(|()| self.copy_coordinate(to, member.variable, own, range, size));
                }
            }
        }
        self.partitioned = Some(partitioned);
        done
    }

    /// Copies a range of variable `from` of the master to variable `own` of a partition.
    fn copy_coordinate(
        &mut self,
        to: &mut Dataset,
        from: usize,
        own: usize,
        range: std::ops::Range<u64>,
        size: u64,
    ) -> Result<(), ArrayError> {
        let mut at = range.start;
        while at < range.end {
            let count = CHUNK.min(range.end - at);
            let mut bytes = vec![0; (count * size) as usize];
            let hyperslab =
                |start: u64| Hyperslab { start: vec![start], count: vec![count], stride: vec![1] };
            let piece =
                PartitionPiece { variable: from, hyperslab: hyperslab(at), bytes: &mut bytes[..] };
            self.get_pieces(vec![piece], IoMode::Independent)?;
            let piece = PartitionPiece {
                variable: own,
                hyperslab: hyperslab(at - range.start),
                bytes: &bytes[..],
            };
            to.put_pieces(&[piece], IoMode::Independent)?;
            at += count;
        }
        Ok(())
    }
}
