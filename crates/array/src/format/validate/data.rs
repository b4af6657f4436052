//! Violations outside of the header: in the ranges of variables, and in the length of the file.

use super::Violation;
use crate::format::arrange::too_large;
use crate::format::decode::Decoded;
use crate::format::{Header, Variable};

/// Adds the violations of a header that could be decoded to its end.
pub(super) fn check(
    decoded: &Decoded,
    bytes: &[u8],
    file_len: u64,
    violations: &mut Vec<Violation>,
) {
    let Decoded { header, places, len } = decoded;
    for (variable, &at) in header.variables.iter().zip(places) {
        if variable.begin % 4 != 0 {
            let (name, begin) = (&variable.name, variable.begin);
            let what = format!("variable '{name}' begins at {begin}, which is no multiple of 4");
            violations.push(Violation::new(Some(at), what));
        }
    }
    // A variable without a valid size or offset was reported already; then there is nothing to
    // compare.
    let Some(spans) = spans(decoded) else { return };
    violations
        .extend(too_large(header).into_iter().map(|error| Violation::new(None, error.to_string())));
    let (records, fixed): (Vec<Span<'_>>, _) =
        spans.into_iter().partition(|span| header.is_record(span.variable));
    overlaps(&fixed, violations);
    overlaps(&records, violations);
    let fixed_end = fixed.iter().max_by_key(|span| span.end());
    if let (Some(fixed), Some(record)) = (fixed_end, records.first())
        && record.begin() < fixed.end()
    {
        let what = format!(
            "the records begin at {}, with variable '{}', but variable '{}' ends at {} only",
            record.begin(),
            record.name(),
            fixed.name(),
            fixed.end()
        );
        violations.push(Violation::new(Some(record.at), what));
    }
    record_overlap(header, &records, violations);
    // netCDF-C extends a file without variables to a page.
    let trailing = usize::try_from(*len).ok().and_then(|len| bytes.get(len..)).unwrap_or_default();
    if header.variables.is_empty() && trailing.iter().all(|&byte| byte == 0) {
        return;
    }
    length(header, &fixed, &records, file_len, violations);
}

/// A variable, or the first record of one, in the file.
struct Span<'a> {
    variable: &'a Variable,
    size: u64,
    /// Offset of the field in the header that has its offset.
    at: u64,
}

impl Span<'_> {
    fn begin(&self) -> u64 {
        self.variable.begin
    }

    fn end(&self) -> u64 {
        self.begin().saturating_add(self.size)
    }

    fn name(&self) -> &str {
        &self.variable.name
    }
}

/// The ranges of all variables, by offset.
fn spans(decoded: &Decoded) -> Option<Vec<Span<'_>>> {
    let Decoded { header, len, places } = decoded;
    let mut spans = Vec::with_capacity(places.len());
    for (variable, &at) in header.variables.iter().zip(places) {
        let size = header.slab_size(variable)?;
        let end = variable.begin.checked_add(size)?;
        if variable.begin < *len || i64::try_from(end).is_err() {
            return None;
        }
        spans.push(Span { variable, size, at });
    }
    spans.sort_by_key(Span::begin);
    Some(spans)
}

/// Adds a violation for each range that begins before a previous one ends; the ranges are sorted by
/// offset.
fn overlaps(spans: &[Span<'_>], violations: &mut Vec<Violation>) {
    let mut furthest: Option<&Span<'_>> = None;
    for span in spans {
        if let Some(before) = furthest.filter(|before| span.begin() < before.end()) {
            let what = format!(
                "variable '{}' begins at {}, in variable '{}', which ends at {}",
                span.name(),
                span.begin(),
                before.name(),
                before.end()
            );
            violations.push(Violation::new(Some(span.at), what));
        }
        if furthest.is_none_or(|before| span.end() > before.end()) {
            furthest = Some(span);
        }
    }
}

/// Adds a violation for a variable whose record extends into the next record.
fn record_overlap(header: &Header, records: &[Span<'_>], violations: &mut Vec<Violation>) {
    let (Some(first), Some(stride)) = (records.first(), header.record_size()) else { return };
    let next = first.begin().saturating_add(stride);
    if let Some(last) = records.iter().max_by_key(|span| span.end())
        && last.end() > next
    {
        let what = format!(
            "a record of variable '{}' ends at {}, in the next record, which begins at {next}",
            last.name(),
            last.end()
        );
        violations.push(Violation::new(Some(last.at), what));
    }
}

/// Compares the length of the file with the end of its data.
fn length(
    header: &Header,
    fixed: &[Span<'_>],
    records: &[Span<'_>],
    file_len: u64,
    violations: &mut Vec<Violation>,
) {
    let is_open = header.records == Header::STREAMING;
    let counted = if is_open { header.records_in(file_len) } else { header.records };
    let first = fixed.iter().chain(records).map(Span::begin).min().unwrap_or_default();
    // Without fill mode a file is not extended before data is written.
    let cut = |what| {
        if file_len <= first {
            Violation::warning(None, format!("no data has been written: {what}"))
        } else {
            Violation::new(None, what)
        }
    };
    if let Some(last) = fixed.iter().max_by_key(|span| span.end())
        && last.end() > file_len
    {
        let missing = last.end() - file_len;
        violations.push(cut(format!(
            "the file ends at {file_len}, {missing} bytes before the end of variable '{}'",
            last.name()
        )));
        return;
    }
    let data_end = records.iter().map(Span::end).max();
    if let (Some(data_end), Some(stride), 1..) = (data_end, header.record_size(), counted) {
        // The padding after the last record may be missing.
        let end = stride.saturating_mul(counted - 1).saturating_add(data_end);
        if end > file_len {
            let (missing, complete) = (end - file_len, header.records_in(file_len));
            violations.push(cut(format!(
                "the file ends at {file_len}, {missing} bytes before the end of the last record: \
                 it holds {complete} of {counted} records"
            )));
            return;
        }
    }
    // A file with a streaming number of records may end with an incomplete record.
    let spare = if is_open { header.record_size().unwrap_or_default() } else { 0 };
    // A writer may have extended the file to its first record.
    let end = header.end_of(counted).map(|end| end.max(header.records_begin().unwrap_or_default()));
    let end = end.map(|end| end.next_multiple_of(4).saturating_add(spare));
    if let Some(trailing) = end.and_then(|end| file_len.checked_sub(end)).filter(|&more| more > 0) {
        let what = format!("{trailing} bytes follow the data");
        violations.push(Violation::warning(Some(file_len - trailing), what));
    }
}
