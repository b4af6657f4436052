//! Comparison of two summaries of runs, as 'striate run --json' writes them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Change, Parts, Unit};

/// Compares them stage by stage.
pub(super) fn compared(a: &[Value], b: &[Value]) -> Parts {
    let mut parts = Parts::default();
    let name = |row: &Value| {
        let label = row["label"].as_str().unwrap_or_default();
        let stage = row["stage"].as_u64().unwrap_or(0);
        if label.is_empty() { format!("stage {stage}") } else { label.to_owned() }
    };
    let by_name = |rows: &[Value]| -> BTreeMap<String, Value> {
        rows.iter().map(|row| (name(row), row.clone())).collect()
    };
    let (first, second) = (by_name(a), by_name(b));
    for (name, a) in &first {
        match second.get(name) {
            Some(b) => stage(name, a, b, first.len() > 1, &mut parts),
            None => parts.only_a.push(name.clone()),
        }
    }
    parts.only_b.extend(second.keys().filter(|name| !first.contains_key(*name)).cloned());
    parts
}

fn stage(name: &str, a: &Value, b: &Value, several: bool, parts: &mut Parts) {
    let before = if several { format!("{name}: ") } else { String::new() };
    let all = format!("{before}all");
    let counted = [
        ("calls", Unit::Count),
        ("failed", Unit::Count),
        ("bytes_read", Unit::Bytes),
        ("bytes_written", Unit::Bytes),
        ("files", Unit::Count),
    ];
    numbers(&all, a, b, &counted, parts);
    for (field, what) in [("read", "peak read rate"), ("written", "peak write rate")] {
        let (a, b) = (a["peak"][field].as_f64(), b["peak"][field].as_f64());
        if let (Some(a), Some(b)) = (a, b) {
            parts.changes.push(Change::measured(&all, what, Unit::BytesPerSecond, a, b));
        }
    }
    seconds(&all, a, b, parts);
    let functions = |row: &Value| row["functions"].as_object().cloned().unwrap_or_default();
    let (first, second) = (functions(a), functions(b));
    for (function, a) in &first {
        let subject = format!("{before}{function}");
        match second.get(function) {
            Some(b) => {
                let counted =
                    [("calls", Unit::Count), ("failed", Unit::Count), ("bytes", Unit::Bytes)];
                numbers(&subject, a, b, &counted, parts);
                seconds(&subject, a, b, parts);
            }
            None => parts.only_a.push(subject),
        }
    }
    let others = second.keys().filter(|function| !first.contains_key(*function));
    parts.only_b.extend(others.map(|function| format!("{before}{function}")));
}

fn numbers(subject: &str, a: &Value, b: &Value, fields: &[(&str, Unit)], parts: &mut Parts) {
    for (field, unit) in fields {
        let (Some(a), Some(b)) = (a[*field].as_u64(), b[*field].as_u64()) else { continue };
        if *field == "calls" || a + b > 0 {
            let what = field.replace('_', " ");
            parts.changes.push(Change::counted(subject, &what, unit.clone(), a, b));
        }
    }
}

fn seconds(subject: &str, a: &Value, b: &Value, parts: &mut Parts) {
    let (Some(a), Some(b)) = (a["seconds"].as_f64(), b["seconds"].as_f64()) else { return };
    parts.changes.push(Change::measured(subject, "time", Unit::Nanoseconds, a * 1e9, b * 1e9));
}
