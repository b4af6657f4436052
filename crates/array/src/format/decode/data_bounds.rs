//! Checks that the data of every variable lies behind the header and ends before 2⁶³.

use super::Decoded;
use super::problem::{DecodeError, Problem};
use super::reader::{DecodeResult, OnProblem};
use crate::format::{Header, Variable};

/// Reports every variable whose data is out of bounds.
pub(super) fn check(decoded: &Decoded, report: OnProblem<'_>) -> DecodeResult<()> {
    let Decoded { header, len, places } = decoded;
    let stride = header.record_size();
    for (variable, &at) in header.variables.iter().zip(places) {
        if let Some(problem) = fault(header, *len, stride, variable) {
            report(DecodeError { at, problem })?;
        }
    }
    Ok(())
}

fn fault(header: &Header, len: u64, stride: Option<u64>, variable: &Variable) -> Option<Problem> {
    let &Variable { ref name, begin, .. } = variable;
    if !variable.dimensions.iter().all(|&id| (id as usize) < header.dimensions.len()) {
        // Reported already; it has no size.
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
    // The distance of the last record from the first.
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
