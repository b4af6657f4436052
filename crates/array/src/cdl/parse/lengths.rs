//! Lengths of unlimited dimensions: as long as the longest values of a variable need.
//!
//! The values of an unlimited dimension that is not the first are in braces, so the dimensions of a
//! variable fall into blocks that begin with one ([`blocks`]).

use std::ops::Range;

use striate_hdf5::write::netcdf::AtomicType;

use super::document::{CdlDocument, CdlType, CdlVariable, ValueList};
use super::list::{Item, ListReader};
use super::place::{Fault, Parsed, quoted};
use super::text_run::TextRun;

/// The dimensions of a variable, by their positions, in blocks: each but the first begins with an
/// unlimited one, and its values are in braces.
pub(super) fn blocks(document: &CdlDocument<'_>, variable: &CdlVariable) -> Vec<Range<usize>> {
    let rank = variable.dimensions.len();
    let mut blocks = Vec::new();
    let mut begin = 0;
    for (position, &dimension) in variable.dimensions.iter().enumerate().skip(1) {
        if document.is_unlimited(dimension) {
            blocks.push(begin..position);
            begin = position;
        }
    }
    blocks.push(begin..rank);
    blocks
}

/// Values that are in one text of a variable of characters: the last dimension, unless it is
/// unlimited or the only one.
pub(super) fn text_unit(document: &CdlDocument<'_>, variable: &CdlVariable) -> u64 {
    match variable.dimensions.as_slice() {
        [_, .., last] if !document.is_unlimited(*last) => {
            document.dimensions.get(*last).map_or(1, |one| one.length.max(1))
        }
        _ => 1,
    }
}

/// Sets the lengths of unlimited dimensions, and checks that no variable is larger than a file.
pub(super) fn measure(mut document: CdlDocument<'_>) -> Parsed<CdlDocument<'_>> {
    for number in 0..document.variables.len() {
        let Some(variable) = document.variables.get(number) else { break };
        let unlimited = variable.dimensions.iter().any(|&it| document.is_unlimited(it));
        if let (true, Some(list)) = (unlimited, variable.data) {
            let needed = Measure::new(&document, variable, list).lengths()?;
            let dimensions = variable.dimensions.clone();
            for (dimension, length) in dimensions.into_iter().zip(needed) {
                let dimension = document.dimensions.get_mut(dimension);
                if let Some(dimension) = dimension.filter(|one| one.unlimited) {
                    dimension.length = dimension.length.max(length);
                }
            }
        }
    }
    for variable in &document.variables {
        let size = u64::from(document.size(variable.of));
        let lengths = document.lengths(variable);
        let bytes = lengths.iter().try_fold(size, |all, &one| all.checked_mul(one));
        if bytes.is_none_or(|bytes| bytes > i64::MAX as u64) {
            let problem = format!("variable {} is larger than any file", quoted(&variable.name));
            return Err(Fault::new(variable.at, problem));
        }
    }
    Ok(document)
}

/// The lengths that the values of a variable need.
struct Measure<'d, 't> {
    document: &'d CdlDocument<'t>,
    variable: &'d CdlVariable,
    reader: ListReader<'t>,
    blocks: Vec<Range<usize>>,
    lengths: Vec<u64>,
}

impl<'d, 't> Measure<'d, 't> {
    fn new(document: &'d CdlDocument<'t>, variable: &'d CdlVariable, list: ValueList) -> Self {
        Self {
            document,
            variable,
            reader: ListReader::new(document.text, list),
            blocks: blocks(document, variable),
            lengths: vec![0; variable.dimensions.len()],
        }
    }

    fn lengths(mut self) -> Parsed<Vec<u64>> {
        // Items of each list that is open; there is one for each block at most.
        let mut open = vec![0_u64];
        while let Some(&items) = open.last() {
            let block = open.len() - 1;
            if open.len() == self.blocks.len() {
                let values = self.values()?;
                self.close(block, values);
                open.pop();
                continue;
            }
            match self.reader.next()? {
                (Item::Open, _) => {
                    open.push(0);
                    if let Some(outer) = open.get_mut(block) {
                        *outer += 1;
                    }
                }
                (Item::Close, _) => {
                    self.close(block, items);
                    open.pop();
                }
                (item, at) => return Err(not_in_braces(at, &item)),
            }
        }
        Ok(self.lengths)
    }

    /// Counts the values of a list that has no lists in it, and takes its end.
    fn values(&mut self) -> Parsed<u64> {
        let mut count = 0_u64;
        if self.variable.of == CdlType::Atomic(AtomicType::Char) {
            let unit = text_unit(self.document, self.variable);
            return TextRun::new(unit, 0).count(&mut self.reader);
        }
        loop {
            match self.reader.next()?.0 {
                Item::Close => return Ok(count),
                Item::Open => self.reader.skip_braces()?,
                Item::Value(_) => {}
            }
            count += 1;
        }
    }

    /// A list of a block has so many items: its first dimension is at least so long.
    fn close(&mut self, block: usize, items: u64) {
        let Some(block) = self.blocks.get(block) else { return };
        let length = |position: usize| {
            let dimension = self.variable.dimensions.get(position)?;
            self.document.dimensions.get(*dimension).map(|one| one.length)
        };
        let others = block.clone().skip(1).filter_map(length);
        let row = others.fold(1_u64, u64::saturating_mul).max(1);
        if let Some(known) = self.lengths.get_mut(block.start) {
            *known = (*known).max(items.div_ceil(row));
        }
    }
}

/// A value stands where braces should.
pub(super) fn not_in_braces(at: usize, item: &Item<'_>) -> Fault {
    let wanted = "'{': values along an unlimited dimension that is not the first are in braces";
    Fault::new(at, format!("expected {wanted}; found {}", item.shown()))
}
