//! Comparison of two results of benchmarks, as 'striate bench --json' writes them.
//!
//! Rows are of the same measurement if all their parameters are equal: words, flags and sizes, but
//! not measured or counted values.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use striate_statistics::median;

use super::significance::{samples, tested};
use super::{Change, Parts, Unit};

/// What is counted while a benchmark runs: it may change.
const COUNTED: [(&str, bool); 11] = [
    ("wanted", true),
    ("accessed", true),
    ("operations", false),
    ("resent", true),
    ("region_size", true),
    ("read_back", true),
    ("requests", false),
    ("request_bytes", true),
    ("request_bytes_per_server", true),
    ("first_call_requests", false),
    ("first_call_request_bytes", true),
];
/// What says nothing about which measurement it is.
const LEFT_OUT: [&str; 6] = ["verified", "met", "read_by", "chosen", "domains", "contiguous"];

/// Compares rows of the same measurement.
pub(super) fn compared(a: &[Value], b: &[Value]) -> Parts {
    let (first, mut second) = (by_name(a), by_name(b));
    let mut parts = Parts::default();
    for (name, a) in &first {
        let Some(b) = second.remove(name) else {
            parts.only_a.push(name.clone());
            continue;
        };
        row(name, a, b, &mut parts);
    }
    parts.only_b = second.into_keys().collect();
    parts
}

fn by_name(rows: &[Value]) -> BTreeMap<String, &Map<String, Value>> {
    let mut found = BTreeMap::new();
    for row in rows.iter().filter_map(Value::as_object) {
        let plain = name(row);
        let mut unique = plain.clone();
        let mut n = 1;
        while found.contains_key(&unique) {
            n += 1;
            unique = format!("{plain} #{n}");
        }
        found.insert(unique, row);
    }
    found
}

/// Which measurement a row is.
fn name(row: &Map<String, Value>) -> String {
    let mut words = Vec::new();
    for (field, value) in row {
        let counted = COUNTED.iter().any(|(name, _)| name == field);
        if counted || LEFT_OUT.contains(&field.as_str()) {
            continue;
        }
        match value {
            Value::String(text) => words.push(without_port(text)),
            Value::Bool(true) => words.push(field.clone()),
            Value::Number(number) if number.is_u64() => words.push(format!("{field} {number}")),
            _ => {}
        }
    }
    words.join(", ")
}

/// Servers of a test get another port each time.
fn without_port(text: &str) -> String {
    let Some((before, after)) = text.split_once("://").and_then(|(_, rest)| rest.split_once(':'))
    else {
        return text.to_owned();
    };
    let scheme = text.split("://").next().unwrap_or_default();
    format!("{scheme}://{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

fn row(name: &str, a: &Map<String, Value>, b: &Map<String, Value>, parts: &mut Parts) {
    let list = |row: &Map<String, Value>| -> Vec<f64> {
        let samples = row.get("samples").and_then(Value::as_array);
        samples.into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let (first, second) = (list(a), list(b));
    if let (Some(before), Some(after)) = (median(&first), median(&second)) {
        let (what, unit) = measured(a);
        let change = Change::measured(name, what, unit, before.value, after.value);
        parts.changes.push(tested(change, samples(&first, &second)));
    }
    for (field, bytes) in COUNTED {
        let number = |row: &Map<String, Value>| row.get(field).and_then(Value::as_u64);
        if let (Some(a), Some(b)) = (number(a), number(b))
            && a != b
        {
            let unit = if bytes { Unit::Bytes } else { Unit::Count };
            let what = field.replace('_', " ");
            parts.changes.push(Change::counted(name, &what, unit, a, b));
        }
    }
}

/// What the samples of a row are.
fn measured(row: &Map<String, Value>) -> (&'static str, Unit) {
    let other = |name: &str| Unit::Other(name.to_owned());
    if row.contains_key("median_mib_s") {
        ("rate", other("MiB/s"))
    } else if row.contains_key("median_gb_s") {
        ("rate", other("GB/s"))
    } else if row.contains_key("value_ns") {
        ("cost of a call", Unit::Nanoseconds)
    } else if let Some(unit) = row.get("unit").and_then(Value::as_str) {
        ("rate", other(unit))
    } else {
        ("median", other(""))
    }
}
