//! Whether the data of every variable has a place behind the header and before 2⁶³.

use super::Decoded;
use super::problem::{DecodeError, Problem};
use super::reader::{Complain, Read};
use crate::format::{Header, Variable};

/// Tells of every variable that has no place.
pub(super) fn check(decoded: &Decoded, complain: Complain<'_>) -> Read<()> {
    let Decoded { header, len, places } = decoded;
    let stride = header.record_size();
    for (variable, &at) in header.variables.iter().zip(places) {
        if let Some(problem) = fault(header, *len, stride, variable) {
            complain(DecodeError { at, problem })?;
        }
    }
    Ok(())
}

fn fault(header: &Header, len: u64, stride: Option<u64>, variable: &Variable) -> Option<Problem> {
    let &Variable { ref name, begin, .. } = variable;
    if !variable.dimensions.iter().all(|&id| (id as usize) < header.dimensions.len()) {
        // Told already; it has no size.
        return None;
    }
    if begin < len {
        return Some(Problem::BeginInHeader { variable: name.clone(), begin, header: len });
    }
    if begin > header.format.max_begin() {
        let format = header.format;
        return Some(Problem::BeginTooFar { variable: name.clone(), begin, format });
    }
    let records = match header.records {
        Header::STREAMING | 0 => 1,
        records => records,
    };
    // The last record begins as much behind the first as all before it take.
    let before = if header.is_record(variable) {
        stride.and_then(|stride| stride.checked_mul(records - 1))
    } else {
        Some(0)
    };
    let end = header
        .slab_size(variable)
        .and_then(|size| size.checked_next_multiple_of(4)?.checked_add(before?)?.checked_add(begin))
        .filter(|&end| i64::try_from(end).is_ok());
    match end {
        Some(_) => None,
        None => Some(Problem::Size { variable: name.clone() }),
    }
}
