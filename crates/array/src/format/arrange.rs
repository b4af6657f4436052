//! [`Header::arrange`]: the offsets of all variables, and the limits of the formats.
//!
//! Fixed variables follow the header in the order of their definition, then the first record of
//! each record variable. Fixed variables are aligned as the [`Alignment`] says; of the records only
//! the first can be, because the formats allow no gap between records. Elements of 8 bytes are
//! aligned to 8 where possible, though the formats do not require it.
//!
//! In an existing file, moving data is the cost. So every variable keeps its offset if possible, no
//! variable moves towards the start of the file, and those that move keep their order.

mod limit;

pub use limit::LimitError;
pub(super) use limit::too_large;

use super::{Format, Header, Variable};

/// Alignment of the parts of a file in bytes; 1 means the 4 bytes that the format prescribes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Of the data section: the space of the header is a multiple of this.
    pub header: u64,
    /// Of fixed variables.
    pub fixed: u64,
    /// Fixed variables smaller than this are aligned to 4 bytes only.
    pub fixed_from: u64,
    /// Of the first record.
    pub record: u64,
}

impl Default for Alignment {
    /// No padding beyond that of the format.
    fn default() -> Self {
        Self { header: 1, fixed: 1, fixed_from: 0, record: 1 }
    }
}

impl Header {
    /// Computes `stated_size` and `begin` of every variable, after checking the limits of the
    /// format; on an error nothing changes. With `before`, the current layout of the file, no
    /// variable moves towards the start of the file. The variables of `before` are the first of
    /// this header's; names may differ.
    pub fn arrange(
        &mut self,
        alignment: &Alignment,
        before: Option<&Header>,
    ) -> Result<(), LimitError> {
        limit::check(self)?;
        let slabs = self.slabs()?;
        let begins = LayoutPlanner { header: self, slabs: &slabs, before, alignment }.begins()?;
        let stated: Vec<u64> =
            slabs.iter().map(|&slab| self.size_to_state(slab).unwrap_or(u64::MAX)).collect();
        for ((variable, begin), stated) in self.variables.iter_mut().zip(begins).zip(stated) {
            (variable.begin, variable.stated_size) = (begin, stated);
        }
        Ok(())
    }

    /// The size in the header for a variable, or one record of it, of `slab` bytes.
    pub(super) fn size_to_state(&self, slab: u64) -> Option<u64> {
        let size = slab.checked_next_multiple_of(4)?;
        match self.format {
            Format::Cdf1 | Format::Cdf2 if size > u64::from(u32::MAX) - 3 => {
                Some(u64::from(u32::MAX))
            }
            _ => Some(size),
        }
    }

    /// The bytes of every variable, or of one record of it.
    fn slabs(&self) -> Result<Vec<u64>, LimitError> {
        let slab = |variable| self.slab_size(variable).ok_or_else(|| no_end(variable));
        self.variables.iter().map(slab).collect()
    }
}

fn no_end(variable: &Variable) -> LimitError {
    LimitError::End { variable: variable.name.clone() }
}

/// The next multiple of a boundary, which is rounded up to a multiple of `natural` (4 or 8).
fn align(at: u64, boundary: u64, natural: u64) -> Option<u64> {
    at.checked_next_multiple_of(boundary.max(1).checked_next_multiple_of(natural)?)
}

fn natural(variable: &Variable) -> u64 {
    variable.external.size().max(4)
}

/// Computes the offsets of a header's variables.
struct LayoutPlanner<'a> {
    header: &'a Header,
    slabs: &'a [u64],
    before: Option<&'a Header>,
    alignment: &'a Alignment,
}

impl LayoutPlanner<'_> {
    fn begins(&self) -> Result<Vec<u64>, LimitError> {
        let mut begins = vec![0; self.slabs.len()];
        let end = self.fixed(&mut begins)?;
        self.records(&mut begins, end)?;
        let format = self.header.format;
        for (variable, &begin) in self.header.variables.iter().zip(&begins) {
            if begin > format.max_begin() {
                let variable = variable.name.clone();
                return Err(LimitError::Begin { variable, begin, format });
            }
        }
        Ok(begins)
    }

    /// The offset of a variable in the old layout.
    fn old(&self, index: usize) -> Option<u64> {
        self.before?.variables.get(index).map(|variable| variable.begin)
    }

    /// The indices of the fixed or the record variables: first the existing ones by offset, then
    /// the new ones in the order of their definition.
    fn order(&self, of_records: bool) -> Vec<usize> {
        let variables = self.header.variables.iter().enumerate();
        let chosen =
            variables.filter(|(_, variable)| self.header.is_record(variable) == of_records);
        let mut order: Vec<usize> = chosen.map(|(index, _)| index).collect();
        order.sort_by_key(|&index| self.old(index).unwrap_or(u64::MAX));
        order
    }

    /// Where data can begin: at the old offset, if the header still fits before it.
    fn data(&self) -> Option<u64> {
        let header = self.header.encoded_len();
        let first = self
            .before
            .and_then(|before| before.variables.iter().map(|variable| variable.begin).min());
        match first {
            Some(first) if header <= first => Some(first),
            _ => align(header, self.alignment.header, 4),
        }
    }

    /// Sets the offsets of the fixed variables; returns the end of the last.
    fn fixed(&self, begins: &mut [u64]) -> Result<u64, LimitError> {
        let variables = &self.header.variables;
        let mut end = self.data();
        for index in self.order(false) {
            let (variable, slab) = (&variables[index], self.slabs[index]);
            let boundary = if slab >= self.alignment.fixed_from { self.alignment.fixed } else { 1 };
            let begin = match (self.old(index), end) {
                (Some(old), Some(end)) if old >= end => Some(old),
                _ => end.and_then(|end| align(end, boundary, natural(variable))),
            };
            begins[index] = begin.ok_or_else(|| no_end(variable))?;
            end = slab
                .checked_next_multiple_of(4)
                .and_then(|size| size.checked_add(begins[index]))
                .filter(|&end| i64::try_from(end).is_ok());
            if end.is_none() {
                return Err(no_end(variable));
            }
        }
        // Without variables there is nothing to name in an error; a header is never that long.
        Ok(end.unwrap_or(u64::MAX))
    }

    /// Sets the offsets of the record variables behind the fixed ones, without gaps.
    fn records(&self, begins: &mut [u64], after: u64) -> Result<(), LimitError> {
        let order = self.order(true);
        let Some(&last) = order.last() else { return Ok(()) };
        let refuse = || no_end(&self.header.variables[last]);
        let mut stride = 0_u64;
        // The first record begins where no variable gets an offset below its old one.
        let mut first = 0;
        for &index in &order {
            begins[index] = stride;
            let old = self.old(index).unwrap_or_default();
            first = first.max(old.saturating_sub(stride));
            let slab = self.slabs[index].checked_next_multiple_of(4);
            stride = slab.and_then(|slab| stride.checked_add(slab)).ok_or_else(refuse)?;
        }
        if first < after {
            let variables = order.iter().map(|&index| &self.header.variables[index]);
            let natural = variables.map(natural).max().unwrap_or(4);
            first = align(after, self.alignment.record, natural).ok_or_else(refuse)?;
        }
        let records = match self.header.records {
            Header::STREAMING => 1,
            records => records.max(1),
        };
        let end = stride.checked_mul(records).and_then(|len| len.checked_add(first));
        end.filter(|&end| i64::try_from(end).is_ok()).ok_or_else(refuse)?;
        for index in order {
            begins[index] += first;
        }
        Ok(())
    }
}
