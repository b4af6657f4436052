//! The job of a Darshan log, for terminals.

use std::fmt::Write as _;

use striate_darshan::Direction;

use super::{Style, plain, row, table};
use crate::darshan::DarshanLog;
use crate::formatting::{cut_path, grouped, moment, part, percent, size, time};
use crate::model::Model;
use crate::summary;

pub(super) fn log(style: &Style, out: &mut String, model: &Model) {
    let Some(log) = model.darshan.as_deref() else { return };
    let _ = writeln!(out, "\n{}", style.heading("Job"));
    let facts = [
        ("job", log.job.to_string()),
        ("user", log.user.to_string()),
        ("ranks", grouped(log.ranks)),
        ("start", moment(log.start_ns)),
        ("end", moment(log.end_ns)),
        ("run time", time(log.run_ns)),
        ("executable", plain(&log.command)),
        ("log format", format!("{}, {}", log.version, log.compression)),
    ];
    for (name, value) in facts {
        let _ = writeln!(out, "  {name:<10}  {value}");
    }
    for (key, value) in &log.metadata {
        let _ = writeln!(out, "  {:<10}  {}", plain(key), plain(value));
    }
    for module in &log.modules {
        let note = if module.read { "" } else { ", not read here" };
        let partial = if module.partial { ", partial" } else { "" };
        let _ = writeln!(
            out,
            "  {:<10}  {} version {}, {} records{note}{partial}",
            "module",
            module.name,
            module.version,
            grouped(module.records)
        );
    }
    style.wrap(out, "  ", &summary::darshan_source(log));
    mounts(style, out, log);
    layers(style, out, log);
    sizes(style, out, log);
    ranks(style, out, log);
}

fn mounts(style: &Style, out: &mut String, log: &DarshanLog) {
    let room = style.width.saturating_sub(56).max(20);
    let _ = writeln!(out, "\n{}", style.heading("File systems"));
    let mut rows = vec![row(&["mount", "type", ">files", ">read", ">written", ">time in calls"])];
    for mount in &log.mounts {
        rows.push(vec![
            plain(&cut_path(&mount.path, room)),
            plain(&mount.kind),
            grouped(mount.files),
            size(mount.bytes_read),
            size(mount.bytes_written),
            time(mount.time_ns),
        ]);
    }
    out.push_str(&table(&rows, Some(style.width)));
    if log.unused_mounts > 0 {
        let _ = writeln!(out, "  {} more were mounted and not used", grouped(log.unused_mounts));
    }
    let mut rows = vec![row(&["used by", ">files", ">read", ">written"])];
    for sharing in &log.sharing {
        rows.push(vec![
            sharing.ranks.clone(),
            grouped(sharing.files),
            size(sharing.bytes_read),
            size(sharing.bytes_written),
        ]);
    }
    out.push_str(&table(&rows, Some(style.width)));
    if !log.layouts.is_empty() {
        let mut rows = vec![row(&[">Lustre stripe", ">stripes", ">files", ">storage targets"])];
        for layout in &log.layouts {
            rows.push(vec![
                size(u64::try_from(layout.stripe_size).unwrap_or(0)),
                layout.stripe_count.to_string(),
                grouped(layout.files),
                grouped(layout.targets),
            ]);
        }
        out.push_str(&table(&rows, Some(style.width)));
    }
}

fn layers(style: &Style, out: &mut String, log: &DarshanLog) {
    let _ = writeln!(out, "\n{}", style.heading("Counters by layer"));
    let mut rows = vec![row(&[
        "layer",
        ">files",
        ">opens",
        ">reads",
        ">writes",
        ">read",
        ">written",
        ">reading",
        ">writing",
        ">metadata",
    ])];
    for layer in &log.layers {
        rows.push(vec![
            layer.layer.clone(),
            grouped(layer.files),
            grouped(layer.opens()),
            grouped(layer.transfers(Direction::Read)),
            grouped(layer.transfers(Direction::Write)),
            size(layer.bytes(Direction::Read)),
            size(layer.bytes(Direction::Write)),
            time(layer.read_ns),
            time(layer.write_ns),
            time(layer.metadata_ns),
        ]);
    }
    out.push_str(&table(&rows, Some(style.width)));
    if let Some(posix) = log.layer("POSIX") {
        let of = |name: &str, way| percent(part(posix.counter(name), posix.transfers(way)));
        let text = format!(
            "POSIX: {} of the reads are sequential and {} consecutive; {} and {} of the writes.",
            of("POSIX_SEQ_READS", Direction::Read),
            of("POSIX_CONSEC_READS", Direction::Read),
            of("POSIX_SEQ_WRITES", Direction::Write),
            of("POSIX_CONSEC_WRITES", Direction::Write)
        );
        style.wrap(out, "  ", &text);
    }
    if let Some(mpi_io) = log.layer("MPI-IO") {
        let mut rows = vec![row(&["MPI-IO calls", ">opens", ">reads", ">writes"])];
        let kinds = [
            ("independent", "INDEP"),
            ("collective", "COLL"),
            ("split collective", "SPLIT"),
            ("nonblocking", "NB"),
        ];
        for (words, kind) in kinds {
            let value = |what: &str| {
                let name = format!("MPIIO_{kind}_{what}");
                let known = mpi_io.counters.contains_key(&name);
                if known { grouped(mpi_io.counter(&name)) } else { "–".into() }
            };
            rows.push(vec![words.into(), value("OPENS"), value("READS"), value("WRITES")]);
        }
        out.push_str(&table(&rows, Some(style.width)));
    }
}

fn sizes(style: &Style, out: &mut String, log: &DarshanLog) {
    let _ = writeln!(out, "\n{}", style.heading("Access sizes"));
    let mut rows = vec![row(&["layer", ">bytes", ">reads", ">writes"])];
    for layer in &log.layers {
        for sizes in layer.sizes.iter().filter(|row| row.reads + row.writes > 0) {
            rows.push(vec![
                layer.layer.clone(),
                sizes.bytes.clone(),
                grouped(sizes.reads),
                grouped(sizes.writes),
            ]);
        }
    }
    out.push_str(&table(&rows, Some(style.width)));
    let mut rows = vec![row(&["layer", ">common size", ">accesses"])];
    for layer in &log.layers {
        for (bytes, times) in &layer.common_sizes {
            rows.push(vec![layer.layer.clone(), size(*bytes), grouped(*times)]);
        }
    }
    if rows.len() > 1 {
        out.push_str(&table(&rows, Some(style.width)));
    }
}

fn ranks(style: &Style, out: &mut String, log: &DarshanLog) {
    if log.ranks_of_files.is_empty() {
        return;
    }
    let room = style.width.saturating_sub(64).max(20);
    let _ = writeln!(out, "\n{}", style.heading("Fastest and slowest rank at shared files"));
    let mut rows =
        vec![row(&["file", "layer", ">fastest", ">time", ">bytes", ">slowest", ">time", ">bytes"])];
    for file in &log.ranks_of_files {
        rows.push(vec![
            plain(&cut_path(&file.path, room)),
            file.layer.clone(),
            file.fastest.to_string(),
            time(file.fastest_ns),
            size(file.fastest_bytes),
            file.slowest.to_string(),
            time(file.slowest_ns),
            size(file.slowest_bytes),
        ]);
    }
    out.push_str(&table(&rows, Some(style.width)));
}
