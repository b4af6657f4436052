//! Coordinates in the partitions, so that other tools can put the partitions together.
//!
//! A coordinate variable (of one dimension, with its name) that stays in the master has a copy in every
//! partition that uses its dimension: of the indices that the partition has, if the dimension is divided
//! there. We read and write the master's only; the copies follow when the dataset is synced or closed, if
//! something may have changed. A dimension without a coordinate variable gets none: nothing is invented.

use super::selection::Extent;
use super::work::Piece;
use crate::{ArrayError, Dataset};

/// Elements that are copied at a time.
const CHUNK: u64 = 1 << 17;

impl Dataset {
    /// Gives the partitions the coordinates that the master has by now. Collective.
    pub(super) fn copy_coordinates(&mut self) -> Result<(), ArrayError> {
        let Some(parted) = &self.parted else { return Ok(()) };
        if parted.scheme.coordinates.is_empty() || !self.state.write {
            return Ok(());
        }
        let stale = u64::from(parted.stale_coordinates);
        let ((), [stale]) = self.state.agree_with(Ok(()), [stale])?;
        if stale == 0 {
            return Ok(());
        }
        // What other ranks have written is read here.
        self.state.file.sync()?;
        let copied = self.copy_to_own();
        self.state.agree(copied)?;
        if let Some(parted) = &mut self.parted {
            parted.stale_coordinates = false;
        }
        Ok(())
    }

    /// The first rank of a group does so for its partitions.
    fn copy_to_own(&mut self) -> Result<(), ArrayError> {
        let Some(mut parted) = self.parted.take() else { return Ok(()) };
        let mut done = Ok(());
        if parted.is_first() {
            for n in 0..parted.parts.len() {
                let members = parted.scheme.members(&parted.logical, parted.parts[n].index);
                for (own, member) in members.iter().enumerate().filter(|(_, it)| it.is_copy) {
                    let variable = &self.state.header.variables[member.variable];
                    let size = variable.external.size();
                    let all = self.state.header.shape(variable).first().copied().unwrap_or(0);
                    let range = member.along.as_ref().map_or(0..all, |(_, range)| range.clone());
                    let to = &mut parted.parts[n].data;
                    done = done.and_then(|()| {
                        self.copy_some(to, [member.variable, own], range.start..range.end, size)
                    });
                }
            }
        }
        self.parted = Some(parted);
        done
    }

    fn copy_some(
        &mut self,
        to: &mut Dataset,
        [from, own]: [usize; 2],
        range: std::ops::Range<u64>,
        size: u64,
    ) -> Result<(), ArrayError> {
        let mut at = range.start;
        while at < range.end {
            let count = CHUNK.min(range.end - at);
            let mut bytes = vec![0; (count * size) as usize];
            let extent =
                |start: u64| Extent { start: vec![start], count: vec![count], stride: vec![1] };
            self.get_pieces(
                vec![Piece { variable: from, extent: extent(at), bytes: &mut bytes[..] }],
                true,
            )?;
            let piece =
                Piece { variable: own, extent: extent(at - range.start), bytes: &bytes[..] };
            to.put_pieces(&[piece], true)?;
            at += count;
        }
        Ok(())
    }
}
